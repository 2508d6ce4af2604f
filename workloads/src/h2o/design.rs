//! Predictors as numbers: an intercept, quantities in units of their deviation, and a column of zeros and
//! ones for each value of the others but the first, by name. Yields the nonzero entries of a flight's row.

use super::{
    schema::COLUMNS,
    table::{LEVELS, Table},
};

/// No column: the first value of its predictor, the baseline of the others.
const BASE: u32 = u32::MAX;
/// Most entries of a row: the intercept, three quantities, six values.
const MOST: usize = 10;

/// Mapping from flights to rows.
#[derive(Debug)]
pub struct Design {
    /// Names of the columns; the first is the intercept.
    pub names: Vec<String>,
    /// Mean and deviation of each quantity.
    scales: [(f64, f64); 3],
    /// Column of each code, by predictor.
    places: [Vec<u32>; 6],
}

/// The entries of a row that are not zero, by ascending column.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row {
    entries: [(u32, f64); MOST],
    count: usize,
}

impl Row {
    pub fn entries(&self) -> &[(u32, f64)] {
        &self.entries[..self.count]
    }

    fn push(&mut self, column: u32, value: f64) {
        self.entries[self.count] = (column, value);
        self.count += 1;
    }

    /// The sum of its entries, each times its coefficient.
    pub fn times(&self, coefficients: &[f64]) -> f64 {
        self.entries().iter().map(|(column, value)| coefficients[*column as usize] * value).sum()
    }
}

impl Design {
    pub fn of(table: &Table) -> Self {
        let mut names = vec!["Intercept".to_owned()];
        names.extend((0..3).map(Table::number_name));
        let scales = [0, 1, 2].map(|place| scale(&table.numbers[place]));
        let places = [0, 1, 2, 3, 4, 5].map(|place| {
            let mut is_used = vec![false; table.names[place].len()];
            for code in &table.levels[place] {
                is_used[*code as usize] = true;
            }
            let mut used: Vec<usize> = (0..is_used.len()).filter(|code| is_used[*code]).collect();
            // Codes of the calendar are in order; those of texts are in order of appearance.
            if place >= 3 {
                used.sort_by_key(|code| &table.names[place][*code]);
            }
            let mut own = vec![BASE; is_used.len()];
            for code in used.into_iter().skip(1) {
                own[code] = names.len() as u32;
                names.push(table.level_name(place, code));
            }
            own
        });
        Self { names, scales, places }
    }

    pub fn width(&self) -> usize {
        self.names.len()
    }

    /// The predictor with the most columns, and the number of its values that occur.
    pub fn widest(&self) -> (&'static str, usize) {
        let used = |places: &Vec<u32>| places.iter().filter(|column| **column != BASE).count() + 1;
        let all = self.places.iter().zip(LEVELS).map(|(places, column)| (COLUMNS[column].name, used(places)));
        all.max_by_key(|(_, values)| *values).unwrap_or_default()
    }

    /// The row of one flight.
    pub fn row(&self, table: &Table, flight: usize) -> Row {
        let mut row = Row::default();
        row.push(0, 1.0);
        for (column, ((mean, deviation), numbers)) in (1..).zip(self.scales.iter().zip(&table.numbers)) {
            row.push(column, (f64::from(numbers[flight]) - mean) / deviation);
        }
        for (places, codes) in self.places.iter().zip(&table.levels) {
            let column = places[codes[flight] as usize];
            if column != BASE {
                row.push(column, 1.0);
            }
        }
        row
    }
}

/// Mean and deviation; deviation 1 if all are equal.
fn scale(numbers: &[u16]) -> (f64, f64) {
    let count = numbers.len().max(1) as f64;
    let mean = numbers.iter().map(|number| u64::from(*number)).sum::<u64>() as f64 / count;
    let variance = numbers.iter().map(|number| (f64::from(*number) - mean).powi(2)).sum::<f64>() / count;
    (mean, if variance > 0.0 { variance.sqrt() } else { 1.0 })
}

#[cfg(test)]
mod tests {
    use super::{Design, scale};
    use crate::h2o::table::Table;

    fn table() -> Table {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let calendar = |most: usize| (0..=most).map(|value| value.to_string()).collect::<Vec<_>>();
        Table {
            late: vec![0, 1, 1],
            numbers: [vec![1990, 1992, 1994], vec![60, 60, 60], vec![100, 200, 300]],
            levels: [
                vec![2, 2, 9],
                vec![1, 2, 3],
                vec![7, 7, 7],
                vec![0, 1, 0],
                vec![2, 0, 2],
                vec![0, 0, 0],
            ],
            names: [
                calendar(12),
                calendar(31),
                calendar(7),
                names(&["UA", "AA"]),
                names(&["SFO", "LAX", "ORD"]),
                names(&["JFK"]),
            ],
            ..Table::default()
        }
    }

    #[test]
    fn columns_are_the_values_that_occur_but_the_first_by_name() {
        let design = Design::of(&table());
        let expected = [
            "Intercept",
            "Year",
            "CRSDepTime",
            "Distance",
            "Month.9",
            "DayofMonth.2",
            "DayofMonth.3",
            "UniqueCarrier.UA",
            "Origin.SFO",
        ];
        assert_eq!(design.names, expected);
    }

    #[test]
    fn a_row_has_its_entries_in_order() {
        let table = table();
        let design = Design::of(&table);
        let unit = 1.5_f64.sqrt();
        let rows: Vec<Vec<(u32, f64)>> =
            (0..3).map(|flight| design.row(&table, flight).entries().to_vec()).collect();
        let near = |one: f64, other: f64| (one - other).abs() < 1e-12;
        let columns: Vec<Vec<u32>> =
            rows.iter().map(|row| row.iter().map(|(column, _)| *column).collect()).collect();
        assert_eq!(columns, [vec![0, 1, 2, 3, 7], vec![0, 1, 2, 3, 5, 8], vec![0, 1, 2, 3, 4, 6, 7]]);
        assert!(near(rows[0][1].1, -unit) && near(rows[1][1].1, 0.0) && near(rows[2][3].1, unit), "{rows:?}");
        assert!(near(rows[0][2].1, 0.0), "what never changes says nothing: {rows:?}");
        assert!(near(design.row(&table, 2).times(&[1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 4.0, 8.0, 16.0]), 15.0));
    }

    #[test]
    fn deviations_are_of_the_whole_set() {
        assert_eq!(scale(&[2, 4]), (3.0, 1.0));
        assert_eq!(scale(&[5, 5]), (5.0, 1.0));
    }
}
