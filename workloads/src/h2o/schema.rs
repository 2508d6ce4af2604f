//! Table of the columns of the airline-delay data, by name and kind, in the order of the file: the 29 of the
//! ASA's Data Expo 2009 (<https://doi.org/10.7910/DVN/HG7NV7>), and the two that H2O's copy has after them.

/// Kind of a column's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number.
    Number,
    /// One of few texts.
    Level,
}

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
}

const fn number(name: &'static str) -> Column {
    Column { name, kind: Kind::Number }
}

const fn level(name: &'static str) -> Column {
    Column { name, kind: Kind::Level }
}

/// Number of columns that every file has.
pub const ORIGINAL: usize = 29;

pub const COLUMNS: [Column; 31] = [
    number("Year"),
    number("Month"),
    number("DayofMonth"),
    number("DayOfWeek"),
    number("DepTime"),
    number("CRSDepTime"),
    number("ArrTime"),
    number("CRSArrTime"),
    level("UniqueCarrier"),
    number("FlightNum"),
    level("TailNum"),
    number("ActualElapsedTime"),
    number("CRSElapsedTime"),
    number("AirTime"),
    number("ArrDelay"),
    number("DepDelay"),
    level("Origin"),
    level("Dest"),
    number("Distance"),
    number("TaxiIn"),
    number("TaxiOut"),
    number("Cancelled"),
    level("CancellationCode"),
    number("Diverted"),
    number("CarrierDelay"),
    number("WeatherDelay"),
    number("NASDelay"),
    number("SecurityDelay"),
    number("LateAircraftDelay"),
    level("IsArrDelayed"),
    level("IsDepDelayed"),
];

pub const YEAR: usize = 0;
pub const MONTH: usize = 1;
pub const DAY: usize = 2;
pub const WEEKDAY: usize = 3;
/// Scheduled departure in clock format: 1435 is 14:35.
pub const SCHEDULED: usize = 5;
pub const CARRIER: usize = 8;
/// Departure delay in minutes, negative if the flight left early.
pub const DEPARTURE_DELAY: usize = 15;
pub const ORIGIN: usize = 16;
pub const DESTINATION: usize = 17;
/// Distance in miles.
pub const DISTANCE: usize = 18;

/// The first line of a file with all columns, with its line feed.
pub fn header() -> String {
    COLUMNS.map(|column| column.name).join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::{
        CARRIER, COLUMNS, DAY, DEPARTURE_DELAY, DESTINATION, DISTANCE, MONTH, ORIGIN, ORIGINAL, SCHEDULED,
        WEEKDAY, YEAR,
    };

    #[test]
    fn columns_are_found_by_their_place() {
        let names = [YEAR, MONTH, DAY, WEEKDAY, SCHEDULED, CARRIER, DEPARTURE_DELAY, ORIGIN, DESTINATION]
            .map(|at| COLUMNS[at].name);
        let expected = [
            "Year",
            "Month",
            "DayofMonth",
            "DayOfWeek",
            "CRSDepTime",
            "UniqueCarrier",
            "DepDelay",
            "Origin",
            "Dest",
        ];
        assert_eq!(names, expected);
        assert_eq!((COLUMNS[DISTANCE].name, COLUMNS[ORIGINAL].name), ("Distance", "IsArrDelayed"));
    }
}
