//! Seeded flights as lines of CSV. A seed gives the same bytes on every machine: whole numbers and exact
//! operations only. The marginals resemble the real data (days and years, share of late flights, values
//! missing in early years); no single flight does.

use chrono::{Datelike as _, Days, NaiveDate};

use super::{
    places::{AIRPORTS, CARRIERS, HOURS, MONTHS, YEARS},
    schema::COLUMNS,
};
use crate::data::random::Random;

/// Version of the generator: another version gives other bytes from the same seed.
pub const GENERATOR_VERSION: u64 = 1;
/// Flights per stream of random numbers; about 1.6 MB of text.
pub const BLOCK: u64 = 16_384;

const FIRST_YEAR: i32 = 1987;
/// Years from which on the data has tail numbers and taxi times, and causes of delays.
const TAILS_SINCE: i32 = 1995;
const CAUSES_SINCE: i32 = 2003;
/// Mean lateness score of a flight, in thousandths of the noise's deviation: 0.45 of all leave late.
const BASE: i32 = -120;

/// Generator of flights.
#[derive(Debug)]
pub struct Flights {
    seed: u64,
    years: Weighted,
    hours: Weighted,
    carriers: Weighted,
    airports: Weighted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Date {
    year: i32,
    month: i32,
    day: i32,
    /// Monday is 1.
    weekday: i32,
}

/// Planned flight.
#[derive(Clone, Copy, Debug)]
struct Plan {
    date: Date,
    /// Minutes since midnight.
    departs: i32,
    carrier: usize,
    number: i32,
    origin: usize,
    destination: usize,
    distance: i32,
    minutes: i32,
}

/// Outcome of a flight, in minutes.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Cancelled { code: u8 },
    Diverted { late: i32, taxi_out: i32 },
    Flown { late: i32, taxi_out: i32, taxi_in: i32, elapsed: i32, cause: usize },
}

impl Flights {
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            years: Weighted::new(YEARS.into_iter()),
            hours: Weighted::new(HOURS.into_iter()),
            carriers: Weighted::new(CARRIERS.into_iter().map(|(_, weight, _)| weight)),
            airports: Weighted::new((0..AIRPORTS.len() as u32).map(|rank| 100_000 / (rank + 8))),
        }
    }

    /// Appends the lines of the first `rows` flights of a block; a block has at most [`BLOCK`].
    pub fn block(&self, block: u64, rows: u64, text: &mut Vec<u8>) {
        let mut random = Random::new(self.seed, block);
        for _ in 0..rows.min(BLOCK) {
            let plan = self.plan(&mut random);
            let fate = fate(&plan, &mut random);
            write(&plan, fate, &mut random, text);
        }
    }

    fn plan(&self, random: &mut Random) -> Plan {
        let date = date(FIRST_YEAR + self.years.draw(random) as i32, random);
        let departs = self.hours.draw(random) as i32 * 60 + below(random, 12) * 5;
        let origin = self.airports.draw(random);
        let destination = loop {
            let other = self.airports.draw(random);
            if other != origin {
                break other;
            }
        };
        let distance = distance(origin, destination);
        Plan {
            date,
            departs,
            carrier: self.carriers.draw(random),
            number: 1 + below(random, 2_999),
            origin,
            destination,
            distance,
            // 30 minutes on the ground, 450 miles an hour in the air.
            minutes: 30 + distance * 2 / 15,
        }
    }
}

/// A number from 0 to `bound`, exclusive; the bias of the remainder is below 1e-15.
fn below(random: &mut Random, bound: i32) -> i32 {
    (random.u64() % bound as u64) as i32
}

/// A day of the year; the first year's flights begin in October. None of a year that no calendar has.
fn day_of(year: i32, random: &mut Random) -> Option<NaiveDate> {
    let month = if year == FIRST_YEAR { 10 } else { 1 };
    let first = NaiveDate::from_ymd_opt(year, month, 1)?;
    let days = NaiveDate::from_ymd_opt(year + 1, 1, 1)?.signed_duration_since(first).num_days();
    first.checked_add_days(Days::new(below(random, days as i32) as u64))
}

fn date(year: i32, random: &mut Random) -> Date {
    let day = day_of(year, random).unwrap_or_default();
    Date {
        year: day.year(),
        month: day.month() as i32,
        day: day.day() as i32,
        weekday: day.weekday().number_from_monday() as i32,
    }
}

/// Distance on a map of 2,600 by 1,300 miles, on which airports lie at places that their rank decides.
fn distance(one: usize, other: usize) -> i32 {
    let place = |airport: usize| {
        let mut random = Random::new(airport as u64, GENERATOR_VERSION);
        (below(&mut random, 2_600), below(&mut random, 1_300))
    };
    let ((x, y), (u, v)) = (place(one), place(other));
    ((x - u).pow(2) + (y - v).pow(2)).isqrt().max(60)
}

fn fate(plan: &Plan, random: &mut Random) -> Fate {
    let luck = below(random, 1_000);
    if luck < 19 {
        // Carrier, weather, air system; security is rare.
        return Fate::Cancelled { code: b"AAAABBBBCCCD"[below(random, 12) as usize] };
    }
    let late = lateness(plan, random);
    let taxi_out = 8 + below(random, 9) + below(random, 9);
    if luck < 21 {
        return Fate::Diverted { late, taxi_out };
    }
    let taxi_in = 3 + below(random, 6);
    // The schedule has some slack, so more time is made up on the way than lost.
    let deviation = below(random, 15) + below(random, 15) - 17;
    let elapsed = (plan.minutes + deviation).max(taxi_out + taxi_in + 15);
    Fate::Flown { late, taxi_out, taxi_in, elapsed, cause: below(random, 5) as usize }
}

/// Departure delay, in minutes: a score from known facts, plus noise; above zero the flight is late.
fn lateness(plan: &Plan, random: &mut Random) -> i32 {
    let hour = plan.departs / 60;
    let of_day = (hour - 12).clamp(-6, 9) * 45;
    let of_week = [0, -40, -10, 60, 80, -70, 10][plan.date.weekday as usize - 1];
    // Busy airports delay more than quiet ones; beyond the first 20 the difference ends.
    let of_origin = 100 - 12 * plan.origin.min(20) as i32;
    let of_distance = plan.distance / 20 - 50;
    let known = of_day + of_week + of_origin + of_distance + MONTHS[plan.date.month as usize - 1];
    let noise = (random.roughly_normal() * 1_000.0) as i32;
    let readiness = BASE + CARRIERS[plan.carrier].2 + known + noise;
    if readiness <= 0 {
        return (readiness / 150).max(-15);
    }
    1 + readiness * 4 / 1_000 + readiness * readiness / 1_000 * 14 / 1_000
}

/// Writes the line of one flight.
fn write(plan: &Plan, fate: Fate, random: &mut Random, text: &mut Vec<u8>) {
    let Plan { date, departs, carrier, number, origin, destination, distance, minutes } = *plan;
    let mut line = Line { text, fields: 0 };
    let (late, taxi_out) = match fate {
        Fate::Cancelled { .. } => (None, None),
        Fate::Diverted { late, taxi_out } | Fate::Flown { late, taxi_out, .. } => {
            (Some(late), Some(taxi_out))
        }
    };
    let (taxi_in, elapsed) = match fate {
        Fate::Flown { taxi_in, elapsed, .. } => (Some(taxi_in), Some(elapsed)),
        Fate::Cancelled { .. } | Fate::Diverted { .. } => (None, None),
    };
    let arrival_delay = late.zip(elapsed).map(|(late, elapsed)| late + elapsed - minutes);
    let known = date.year >= TAILS_SINCE;
    for value in [date.year, date.month, date.day, date.weekday] {
        line.number(Some(value));
    }
    let departed = late.map(|late| departs + late);
    line.number(departed.map(clock));
    line.number(Some(clock(departs)));
    line.number(departed.zip(elapsed).map(|(departed, elapsed)| clock(departed + elapsed)));
    line.number(Some(clock(departs + minutes)));
    line.text(CARRIERS[carrier].0.as_bytes());
    line.number(Some(number));
    line.tail(known.then(|| below(random, 250)), CARRIERS[carrier].0);
    line.number(elapsed);
    line.number(Some(minutes));
    let air = elapsed.zip(taxi_in).zip(taxi_out).map(|((elapsed, taxi_in), out)| elapsed - taxi_in - out);
    line.number(air.filter(|_| known));
    line.number(arrival_delay);
    line.number(late);
    line.text(AIRPORTS[origin].as_bytes());
    line.text(AIRPORTS[destination].as_bytes());
    line.number(Some(distance));
    line.number(taxi_in.filter(|_| known));
    line.number(taxi_out.filter(|_| known));
    end(date.year, fate, arrival_delay, late, &mut line);
}

/// Writes the columns from `Cancelled` on.
fn end(year: i32, fate: Fate, arrival_delay: Option<i32>, late: Option<i32>, line: &mut Line<'_>) {
    line.number(Some(i32::from(matches!(fate, Fate::Cancelled { .. }))));
    match fate {
        Fate::Cancelled { code } if year >= CAUSES_SINCE => line.text(&[code]),
        Fate::Cancelled { .. } | Fate::Diverted { .. } | Fate::Flown { .. } => line.text(b"NA"),
    }
    line.number(Some(i32::from(matches!(fate, Fate::Diverted { .. }))));
    // Only flights that arrive at least a quarter of an hour late have causes.
    let told = arrival_delay.filter(|_| year >= CAUSES_SINCE);
    for cause in 0..5 {
        let share = |delay: i32| match fate {
            Fate::Flown { cause: own, .. } if own == cause && delay >= 15 => delay,
            Fate::Flown { .. } | Fate::Diverted { .. } | Fate::Cancelled { .. } => 0,
        };
        line.number(told.map(share));
    }
    for delay in [arrival_delay, late] {
        line.text(delay.map_or(b"NA", |delay| if delay > 0 { b"YES" } else { b"NO" }));
    }
}

/// Minutes in clock format: 875 is 1435.
fn clock(minutes: i32) -> i32 {
    let minutes = minutes.rem_euclid(1_440);
    minutes / 60 * 100 + minutes % 60
}

/// A line being written.
struct Line<'a> {
    text: &'a mut Vec<u8>,
    fields: usize,
}

impl Line<'_> {
    fn text(&mut self, value: &[u8]) {
        self.text.extend_from_slice(value);
        self.fields += 1;
        self.text.push(if self.fields == COLUMNS.len() { b'\n' } else { b',' });
    }

    fn number(&mut self, value: Option<i32>) {
        let Some(value) = value else { return self.text(b"NA") };
        let mut digits = [0; 11];
        let mut at = digits.len();
        let mut left = value.unsigned_abs();
        loop {
            at -= 1;
            digits[at] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        if value < 0 {
            at -= 1;
            digits[at] = b'-';
        }
        self.text(&digits[at..]);
    }

    /// Writes a tail number like `N123UA`.
    fn tail(&mut self, plane: Option<i32>, carrier: &str) {
        let Some(plane) = plane else { return self.text(b"NA") };
        let digit = |place: i32| b'0' + (plane / place % 10) as u8;
        let [first, second] = [carrier.as_bytes()[0], carrier.as_bytes()[1]];
        self.text(&[b'N', digit(100), digit(10), digit(1), first, second]);
    }
}

/// Draws indexes of a list by weight.
#[derive(Debug)]
struct Weighted(Vec<u64>);

impl Weighted {
    fn new(weights: impl Iterator<Item = u32>) -> Self {
        Self(
            weights
                .scan(0, |sum, weight| {
                    *sum += u64::from(weight);
                    Some(*sum)
                })
                .collect(),
        )
    }

    fn draw(&self, random: &mut Random) -> usize {
        let total = self.0.last().copied().unwrap_or(1);
        let drawn = random.u64() % total;
        self.0.partition_point(|sum| *sum <= drawn)
    }
}

#[cfg(test)]
#[path = "flights_tests.rs"]
mod tests;
