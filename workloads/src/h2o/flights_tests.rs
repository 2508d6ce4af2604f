//! Properties of generated flights: exact facts line by line, shares within five deviations of a sample's.

use std::collections::{BTreeMap, BTreeSet};

use rstest::rstest;

use super::{BLOCK, Date, Flights, date, distance};
use crate::{
    data::random::Random,
    digest::Digest,
    h2o::{
        places::{AIRPORTS, CARRIERS, HOURS, YEARS},
        schema::{COLUMNS, header},
    },
};

const ROWS: u64 = 2 * BLOCK;

fn text(seed: u64, block: u64, rows: u64) -> String {
    let mut text = Vec::new();
    Flights::new(seed).block(block, rows, &mut text);
    String::from_utf8(text).unwrap()
}

/// Fields of each flight, by column name.
fn flights() -> Vec<BTreeMap<&'static str, String>> {
    let text = text(1, 0, BLOCK) + &text(1, 1, BLOCK);
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), COLUMNS.len(), "{line}");
        COLUMNS.iter().zip(fields).map(|(column, field)| (column.name, field.to_owned())).collect()
    };
    text.lines().map(row).collect()
}

fn number(flight: &BTreeMap<&str, String>, name: &str) -> Option<i32> {
    (flight[name] != "NA").then(|| flight[name].parse().unwrap())
}

/// Asserts that the share `count` of `all` is `expected` within five deviations.
fn assert_share(what: &str, count: usize, all: usize, expected: f64) {
    let share = count as f64 / all as f64;
    let deviation = (expected * (1.0 - expected) / all as f64).sqrt();
    assert!((share - expected).abs() < 5.0 * deviation, "{what}: {share} of {all}, expected {expected}");
}

/// A change of the generator also changes its version and these hashes.
#[rstest]
#[case(1, 0, 2_000, "42dc63055421c2a1")]
#[case(7, 3, 100, "7d86a4075abed51e")]
fn a_seed_decides_every_byte(
    #[case] seed: u64,
    #[case] block: u64,
    #[case] rows: u64,
    #[case] expected: &str,
) {
    let mut digest = Digest::default();
    digest.bytes(text(seed, block, rows).as_bytes());
    assert_eq!(digest.to_string(), expected);
    assert!(text(seed, block, rows).starts_with(&text(seed, block, 10)), "more rows, the same first ones");
    assert_ne!(text(seed, block, 10), text(seed + 1, block, 10));
    assert_ne!(text(seed, block, 10), text(seed, block + 1, 10));
}

#[test]
fn a_block_has_no_more_rows_than_that() {
    assert_eq!(text(1, 0, u64::MAX).lines().count() as u64, BLOCK);
    assert_eq!(header().trim_end().split(',').count(), 31);
}

#[test]
fn a_flight_agrees_with_itself() {
    for flight in flights() {
        let get = |name| number(&flight, name);
        let (late, arrival) = (get("DepDelay"), get("ArrDelay"));
        assert!((1..=366).contains(&get("DayofMonth").unwrap()) && get("DayofMonth").unwrap() <= 31);
        for time in ["DepTime", "CRSDepTime", "ArrTime", "CRSArrTime"] {
            assert!(get(time).is_none_or(|time| time / 100 < 24 && time % 100 < 60), "{flight:?}");
        }
        assert_ne!(flight["Origin"], flight["Dest"]);
        for (delay, word) in [(late, "IsDepDelayed"), (arrival, "IsArrDelayed")] {
            let expected = delay.map_or("NA", |delay| if delay > 0 { "YES" } else { "NO" });
            assert_eq!(flight[word], expected, "{flight:?}");
        }
        let cancelled = get("Cancelled") == Some(1);
        assert_eq!(late.is_none(), cancelled, "{flight:?}");
        assert_eq!(arrival.is_none(), cancelled || get("Diverted") == Some(1), "{flight:?}");
        assert!(flight["CancellationCode"] == "NA" || cancelled);
        if let (Some(late), Some(arrival)) = (late, arrival) {
            let deviation = get("ActualElapsedTime").unwrap() - get("CRSElapsedTime").unwrap();
            assert_eq!(arrival, late + deviation, "{flight:?}");
        }
        let causes = ["CarrierDelay", "WeatherDelay", "NASDelay", "SecurityDelay", "LateAircraftDelay"];
        let told: Option<i32> = causes.into_iter().map(get).sum();
        let expected = arrival.filter(|_| get("Year").unwrap() >= 2003);
        assert_eq!(told, expected.map(|delay| if delay >= 15 { delay } else { 0 }), "{flight:?}");
    }
}

#[test]
fn shares_are_those_of_the_tables() {
    let flights = flights();
    let all = flights.len();
    assert_eq!(all as u64, ROWS);
    let count = |name: &str, value: &str| flights.iter().filter(|flight| flight[name] == value).count();
    assert_share("cancelled", count("Cancelled", "1"), all, 0.019);
    assert_share("diverted", count("Diverted", "1"), all, 0.002);
    assert_share("late", count("IsDepDelayed", "YES"), all, 0.45);
    let total: u32 = YEARS.iter().sum();
    for (year, weight) in (1987..).zip(YEARS) {
        assert_share("year", count("Year", &year.to_string()), all, f64::from(weight) / f64::from(total));
    }
    let total: u32 = CARRIERS.iter().map(|carrier| carrier.1).sum();
    for (code, weight, _) in CARRIERS {
        assert_share(code, count("UniqueCarrier", code), all, f64::from(weight) / f64::from(total));
    }
    let total: u32 = HOURS.iter().sum();
    for (hour, weight) in HOURS.into_iter().enumerate() {
        let departs = |flight: &&BTreeMap<_, _>| number(flight, "CRSDepTime").unwrap() / 100 == hour as i32;
        let share = f64::from(weight) / f64::from(total);
        assert_share("hour", flights.iter().filter(departs).count(), all, share);
    }
    for weekday in 1..=7 {
        assert_share("weekday", count("DayOfWeek", &weekday.to_string()), all, 1.0 / 7.0);
    }
    let origins: BTreeSet<&str> = flights.iter().map(|flight| flight["Origin"].as_str()).collect();
    assert_eq!(origins, BTreeSet::from(AIRPORTS), "each airport occurs");
    assert!(count("Origin", AIRPORTS[0]) > 5 * count("Origin", AIRPORTS[119]));
}

#[test]
fn some_are_readier_to_be_late_than_others() {
    let flights = flights();
    let late = |is_in: &dyn Fn(&BTreeMap<&str, String>) -> bool| {
        let all: Vec<_> = flights.iter().filter(|flight| is_in(flight)).collect();
        all.iter().filter(|flight| flight["IsDepDelayed"] == "YES").count() as f64 / all.len() as f64
    };
    let hour = |flight: &BTreeMap<&str, String>| number(flight, "CRSDepTime").unwrap() / 100;
    assert!(late(&|flight| hour(flight) >= 18) > 0.1 + late(&|flight| hour(flight) < 9));
    assert!(
        late(&|flight| flight["UniqueCarrier"] == "WN") > late(&|flight| flight["UniqueCarrier"] == "NW")
    );
}

#[rstest]
#[case(1987, 10, 1, 4)]
#[case(1988, 2, 29, 1)]
#[case(2000, 1, 1, 6)]
#[case(2008, 12, 31, 3)]
fn weekdays_are_those_of_the_calendar(
    #[case] year: i32,
    #[case] month: i32,
    #[case] day: i32,
    #[case] weekday: i32,
) {
    let mut random = Random::new(1, 1);
    let expected = Date { year, month, day, weekday };
    let drawn = (0..5_000).map(|_| date(year, &mut random));
    let same: Vec<Date> = drawn.filter(|date| (date.month, date.day) == (month, day)).collect();
    assert!(!same.is_empty() && same.iter().all(|date| *date == expected), "{same:?}");
}

#[test]
fn it_is_as_far_there_as_back() {
    for (one, other) in [(0, 1), (5, 119), (30, 31)] {
        assert_eq!(distance(one, other), distance(other, one));
        assert!((60..=2_907).contains(&distance(one, other)));
    }
}
