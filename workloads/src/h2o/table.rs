//! Training data: the outcome and nine predictors of each flight, in 19 bytes, so that 152 million flights
//! take 2.9 GB. Yields a table from parsed chunks; flights that lack one of these are left out and counted.
//! If the flights would not fit into memory, it fails before reading any.

use super::{
    columns::{Columns, Levels, MISSING, MISSING_LEVEL},
    error::H2oError,
    parse,
    reader::{Bad, Parser},
    schema::{
        CARRIER, COLUMNS, DAY, DEPARTURE_DELAY, DESTINATION, DISTANCE, MONTH, ORIGIN, SCHEDULED, WEEKDAY,
        YEAR,
    },
    source::Data,
};
use crate::{
    digest::Digest,
    memory::{self, NoRoom},
    steps::Steps,
};

/// Predictors that are quantities: columns of the schema, in this order.
pub const NUMBERS: [usize; 3] = [YEAR, SCHEDULED, DISTANCE];
/// Categorical predictors, in this order.
pub const LEVELS: [usize; 6] = [MONTH, DAY, WEEKDAY, CARRIER, ORIGIN, DESTINATION];
/// Largest value of each of them that is a number in the file.
const CALENDAR: [i32; 3] = [12, 31, 7];
/// Bytes of the file parsed at once.
const CHUNK_BYTES: usize = 4 << 20;
/// Memory of a flight in all columns, bytes.
const FLIGHT_BYTES: u64 = 19;
/// Memory for reading: a chunk as text, and its rows as columns of four bytes.
const READING_BYTES: u64 = 16 << 20;
/// With more flights than expected, memory grows by one part in so many.
const GROWTH: usize = 16;

/// Columns of all flights.
#[derive(Debug, Default)]
pub struct Table {
    /// Outcome: 1 if the flight left late, else 0.
    pub late: Vec<u8>,
    /// Columns of [`NUMBERS`]; the scheduled time as minutes since midnight.
    pub numbers: [Vec<u16>; 3],
    /// Columns of [`LEVELS`]: calendar numbers as they are, others as codes.
    pub levels: [Vec<u16>; 6],
    /// Names of the codes; calendar numbers name themselves.
    pub names: [Vec<String>; 6],
    /// Number of flights that lack a value.
    pub left_out: u64,
    pub bad: Bad,
}

impl Table {
    /// Reads all flights of `data`, as requests `load` with `parse`'s phases. Training takes `beside_bytes`.
    pub fn load(data: &Data, beside_bytes: u64, progress: bool) -> Result<Self, H2oError> {
        let flights = data.flights()?;
        check_room(flights, READING_BYTES.saturating_add(beside_bytes))?;
        let mut source = data.open(CHUNK_BYTES, progress)?;
        let mut table = Self::default();
        table.reserve(flights as usize)?;
        let parser = parse::load(&mut source, &mut Steps::new(parse::PHASES), "load", |columns| {
            table.make_room(columns.rows)?;
            table.append(columns);
            Ok(())
        })?;
        table.finish(parser);
        if table.late.is_empty() {
            return Err(H2oError::NoRows { path: source.path, rows: table.left_out + table.bad.rows });
        }
        if table.late.iter().all(|late| *late == table.late[0]) {
            return Err(H2oError::OneOutcome { path: source.path });
        }
        Ok(table)
    }

    pub fn rows(&self) -> usize {
        self.late.len()
    }

    /// Reserves memory for exactly `flights` more flights. It is not used before it is written to.
    fn reserve(&mut self, flights: usize) -> Result<(), H2oError> {
        let reserved = memory::reserve(&mut self.late, flights);
        let mut columns = self.numbers.iter_mut().chain(&mut self.levels);
        let reserved =
            reserved.and_then(|()| columns.try_for_each(|column| memory::reserve(column, flights)));
        reserved.map_err(|error| no_room(flights as u64, error))
    }

    /// Reserves only if memory is short: later lines of a file may be shorter than its first ones. Vectors
    /// that grow by themselves would ask for twice their size, and end the process if refused.
    fn make_room(&mut self, flights: usize) -> Result<(), H2oError> {
        if self.late.capacity() - self.late.len() >= flights {
            return Ok(());
        }
        let more = flights.max(self.late.len() / GROWTH);
        check_room(more as u64, 0)?;
        self.reserve(more)
    }

    fn append(&mut self, columns: &Columns) {
        let numbers = NUMBERS.map(|column| columns.numbers(column));
        let [month, day, weekday] = [MONTH, DAY, WEEKDAY].map(|column| columns.numbers(column));
        let codes = [CARRIER, ORIGIN, DESTINATION].map(|column| columns.codes(column));
        let delays = columns.numbers(DEPARTURE_DELAY);
        for row in 0..columns.rows {
            let quantities = quantities(numbers.map(|column| column[row]));
            let calendar = calendar([month, day, weekday].map(|column| column[row]));
            let codes = codes.map(|column| column[row]);
            let (Some(quantities), Some(calendar)) = (quantities, calendar) else {
                self.left_out += 1;
                continue;
            };
            if codes.contains(&MISSING_LEVEL) || delays[row] == MISSING {
                self.left_out += 1;
                continue;
            }
            self.late.push(u8::from(delays[row] > 0));
            for (own, value) in self.numbers.iter_mut().zip(quantities) {
                own.push(value);
            }
            for (own, value) in self.levels.iter_mut().zip(calendar.into_iter().chain(codes)) {
                own.push(value);
            }
        }
    }

    fn finish(&mut self, mut parser: Parser) {
        for (names, column) in self.names.iter_mut().zip(LEVELS) {
            let Levels { names: known, .. } = std::mem::take(&mut parser.levels[column]);
            *names = known;
        }
        for (names, most) in self.names.iter_mut().zip(CALENDAR) {
            *names = (0..=most).map(|value| value.to_string()).collect();
        }
        self.bad = parser.bad;
    }

    /// Digest of all values: equal for two tables with the same data.
    pub fn digest(&self) -> Digest {
        let mut digest = Digest::default();
        digest.bytes(&self.late);
        for column in self.numbers.iter().chain(&self.levels) {
            for value in column {
                digest.bytes(&value.to_le_bytes());
            }
        }
        for name in self.names.iter().flatten() {
            digest.text(name);
        }
        digest
    }

    /// The name of a predictor: `Distance`, `Origin.SFO`.
    pub fn number_name(place: usize) -> String {
        COLUMNS[NUMBERS[place]].name.to_owned()
    }

    pub fn level_name(&self, place: usize, code: usize) -> String {
        format!("{}.{}", COLUMNS[LEVELS[place]].name, self.names[place][code])
    }
}

/// Checks that `flights` flights fit into memory, with `beside_bytes` beside them.
fn check_room(flights: u64, beside_bytes: u64) -> Result<(), H2oError> {
    let needed_bytes = flights.saturating_mul(FLIGHT_BYTES).saturating_add(beside_bytes);
    memory::check(needed_bytes).map_err(|error| no_room(flights, error))
}

fn no_room(flights: u64, error: NoRoom) -> H2oError {
    let NoRoom { needed_bytes, available_bytes } = error;
    H2oError::Flights { flights, needed_bytes, available_bytes }
}

fn quantities([year, scheduled, distance]: [i32; 3]) -> Option<[u16; 3]> {
    // Missing is negative. Some lines of the real data say 2400 for midnight.
    let minutes = (0..=2_400).contains(&scheduled).then(|| scheduled / 100 * 60 + scheduled % 100)?;
    let small = |number: i32| u16::try_from(number).ok();
    Some([small(year)?, small(minutes)?, small(distance)?])
}

fn calendar(values: [i32; 3]) -> Option<[u16; 3]> {
    let is_possible = values.iter().zip(CALENDAR).all(|(value, most)| (1..=most).contains(value));
    is_possible.then(|| values.map(|value| value as u16))
}

#[cfg(test)]
mod tests {
    use super::{Table, calendar, quantities};
    use crate::h2o::{columns::MISSING, error::H2oError, reader::Parser, schema};

    fn table(lines: &[&str]) -> Table {
        let mut parser = Parser::new("flights.csv".into());
        parser.feed(schema::header().as_bytes()).unwrap();
        for line in lines {
            parser.feed(format!("{line}\n").as_bytes()).unwrap();
        }
        parser.finish().unwrap();
        let mut table = Table::default();
        table.append(&parser.columns);
        table.finish(parser);
        table
    }

    const WHOLE: &str = "1987,10,14,3,741,730,912,849,PS,1451,NA,91,79,NA,23,11,SAN,SFO,447,NA,NA,0,NA,0,NA,NA,NA,NA,NA,YES,YES";

    #[test]
    fn a_flight_is_what_its_line_says() {
        let table = table(&[WHOLE]);
        assert_eq!(table.late, [1]);
        assert_eq!(table.numbers, [[1987], [7 * 60 + 30], [447]].map(Vec::from));
        assert_eq!(table.levels, [[10], [14], [3], [0], [0], [0]].map(Vec::from));
        let names: Vec<String> = (3..6).map(|place| table.level_name(place, 0)).collect();
        assert_eq!(names, ["UniqueCarrier.PS", "Origin.SAN", "Dest.SFO"]);
        assert_eq!((table.level_name(0, 10), Table::number_name(2)), ("Month.10".into(), "Distance".into()));
    }

    #[test]
    fn flights_that_lack_something_are_counted() {
        let lacking = ["NA,10,14", "1987,13,14", "1987,10,0"].map(|start| WHOLE.replace("1987,10,14", start));
        let more =
            [("PS", "NA"), ("SAN", "NA"), (",23,11,", ",23,NA,"), (",447,", ",-447,"), (",730,", ",2401,")];
        let lines: Vec<String> =
            lacking.into_iter().chain(more.map(|(old, new)| WHOLE.replace(old, new))).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).chain([WHOLE]).collect();
        let table = table(&lines);
        assert_eq!((table.rows(), table.left_out), (1, 8));
    }

    #[test]
    fn room_is_made_for_what_comes_and_no_more() {
        let mut table = table(&[WHOLE]);
        table.reserve(100).unwrap();
        assert_eq!((table.late.capacity(), table.levels[5].capacity()), (101, 101));
        table.make_room(100).unwrap();
        assert_eq!(table.late.capacity(), 101, "there was room");
        table.make_room(101).unwrap();
        assert_eq!(table.numbers[0].capacity(), 102);
        let error = table.make_room(1 << 50).unwrap_err();
        assert!(matches!(error, H2oError::Flights { flights, .. } if flights == 1 << 50), "{error}");
    }

    #[test]
    fn bounds_are_inside() {
        assert_eq!(quantities([2008, 2400, 0]), Some([2008, 1440, 0]));
        assert_eq!(quantities([2008, 0, MISSING]), None);
        assert_eq!(calendar([12, 31, 7]), Some([12, 31, 7]));
        assert_eq!(calendar([1, 1, 8]), None);
    }
}
