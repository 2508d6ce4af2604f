//! The fit where its result is known without computing it; `tests/h2o.rs` compares it with other programs.

use super::{Irls, Settings, check_memory, fit_once, null_deviance};
use crate::{
    h2o::{design::Design, error::H2oError, source::Data, table::Table},
    steps::Steps,
};

/// Flights that differ only in their carrier: of 40 with the first 10 are late, of 20 with the second 15.
fn two_carriers() -> Table {
    let all = 60;
    let late = (0..all).map(|flight| u8::from(flight < 10 || (40..55).contains(&flight)));
    let same = |value: u16| vec![value; all];
    let names = |count: usize| (0..count).map(|code| format!("{code:02}")).collect::<Vec<String>>();
    Table {
        late: late.collect(),
        numbers: [same(1990), same(600), same(447)],
        levels: [
            same(1),
            same(1),
            same(1),
            (0..60).map(|flight| u16::from(flight >= 40)).collect(),
            same(0),
            same(0),
        ],
        names: [names(13), names(32), names(8), names(2), names(1), names(1)],
        ..Table::default()
    }
}

fn settings(l2: f64, max_iterations: u64) -> Settings {
    let data = Data { file: None, rows: 0, seed: 0 };
    Settings { data, fits: 1, max_iterations, l2, progress: false }
}

#[test]
fn the_coefficient_of_a_carrier_is_its_log_odds_ratio() {
    let table = two_carriers();
    let mut steps = Steps::new(super::PHASES);
    let fit = fit_once(&table, &settings(1e-12, 25), &mut steps).unwrap();
    let (odds, other_odds) = (10.0_f64 / 30.0, 15.0_f64 / 5.0);
    assert!(fit.is_converged && (2..10).contains(&fit.iterations), "{fit:?}");
    assert_eq!((steps.count(), fit.names.len()), (fit.iterations, 5));
    assert!((fit.coefficients[0] - odds.ln()).abs() < 1e-6, "{fit:?}");
    assert!((fit.coefficients[4] - (other_odds / odds).ln()).abs() < 1e-6, "{fit:?}");
    let unlikelihood =
        |late: f64, all: f64| -2.0 * (late * (late / all).ln() + (all - late) * (1.0 - late / all).ln());
    assert!((fit.deviance - unlikelihood(10.0, 40.0) - unlikelihood(15.0, 20.0)).abs() < 1e-6, "{fit:?}");
    assert!((fit.null_deviance - unlikelihood(25.0, 60.0)).abs() < 1e-9, "{fit:?}");
    assert!((null_deviance(&table) - fit.null_deviance).abs() < 1e-12);
}

#[test]
fn a_larger_price_makes_coefficients_smaller() {
    let size =
        |l2: f64| fit_once(&two_carriers(), &settings(l2, 50), &mut Steps::new(super::PHASES)).unwrap();
    let (cheap, dear) = (size(1e-3), size(1.0));
    assert!(dear.is_converged && dear.coefficients[4].abs() < cheap.coefficients[4].abs() / 5.0);
    assert!(dear.deviance > cheap.deviance);
}

#[test]
fn a_step_that_is_too_far_is_halved() {
    let table = two_carriers();
    let mut irls = Irls::new(&table, Design::of(&table), 1e-6);
    irls.add_up();
    let good = irls.solve().unwrap();
    let start = irls.objective;
    assert!(irls.accept(good.iter().map(|coefficient| coefficient * 64.0).collect()));
    assert!(irls.objective < start, "{} {start}", irls.objective);
    assert!(irls.coefficients.iter().zip(&good).all(|(found, good)| found.abs() <= 64.0 * good.abs()));
    // If no part of the way helps, it stays.
    let (stays, objective) = (irls.coefficients.clone(), irls.objective);
    assert!(!irls.accept(vec![f64::NAN; stays.len()]));
    assert_eq!((irls.coefficients, irls.objective.to_bits()), (stays, objective.to_bits()));
}

#[test]
fn iterations_can_be_limited_and_what_is_not_known_is_named() {
    let fit = fit_once(&two_carriers(), &settings(1e-12, 1), &mut Steps::new(super::PHASES)).unwrap();
    assert_eq!((fit.iterations, fit.is_converged), (1, false));
    // All flights are of one year: without a penalty its coefficient could be anything.
    let error = fit_once(&two_carriers(), &settings(0.0, 25), &mut Steps::new(super::PHASES)).unwrap_err();
    assert!(matches!(&error, H2oError::Dependent { predictor } if predictor == "Year"), "{error}");
}

#[test]
fn too_many_values_are_refused_with_the_name_of_their_predictor() {
    let mut table = two_carriers();
    table.names[4] = (0..60).map(|code| format!("{code:03}")).collect();
    table.levels[4] = (0..60).collect();
    let design = Design::of(&table);
    // Intercept, 3 quantities, 1 more carrier, 59 more airports.
    assert_eq!(design.width(), 64);
    check_memory(&design, Some(8 * 64 * 64)).unwrap();
    check_memory(&design, None).unwrap();
    let error = check_memory(&design, Some(8 * 64 * 64 - 1)).unwrap_err();
    insta::assert_snapshot!(error, @"not enough memory for 60 values of Origin: 32768 bytes needed, 32767 available");
}
