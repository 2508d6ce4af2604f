//! Table of the flight generator's distributions: years, hours, carriers and airports, each with its weight.
//! Codes are real, their shares only roughly so; the positions of airports are made up (`flights`).

/// Flights of each year from 1987 on, in 10,000; 1987 begins with October.
pub const YEARS: [u32; 22] = [
    131, 520, 504, 527, 508, 509, 507, 518, 533, 535, 541, 538, 553, 568, 597, 527, 649, 713, 714, 714, 745,
    701,
];

/// Scheduled departures in each hour of the day, in thousandths.
pub const HOURS: [u32; 24] =
    [3, 1, 1, 1, 1, 15, 65, 68, 68, 62, 60, 62, 62, 64, 60, 62, 62, 68, 62, 56, 44, 32, 14, 7];

/// Each month's part of the lateness score, in thousandths of the noise's deviation.
pub const MONTHS: [i32; 12] = [40, 30, 40, -60, -50, 100, 90, 40, -140, -60, -50, 120];

/// Code, weight, and part of the lateness score (as above).
pub const CARRIERS: [(&str, u32, i32); 20] = [
    ("AA", 121, -20),
    ("AS", 23, 60),
    ("B6", 7, 90),
    ("CO", 66, -30),
    ("DH", 6, 30),
    ("DL", 134, -10),
    ("EA", 8, -20),
    ("EV", 14, 110),
    ("FL", 10, 40),
    ("HP", 29, 50),
    ("MQ", 32, 0),
    ("NW", 83, -90),
    ("OH", 12, 20),
    ("OO", 25, -60),
    ("PI", 7, 70),
    ("TW", 30, -40),
    ("UA", 107, 60),
    ("US", 114, 10),
    ("WN", 130, 120),
    ("XE", 19, -30),
];

/// Airports, busiest first: the weight falls with the rank.
pub const AIRPORTS: [&str; 120] = [
    "ORD", "ATL", "DFW", "LAX", "PHX", "DEN", "DTW", "IAH", "MSP", "SFO", "STL", "EWR", "LAS", "CLT", "LGA",
    "BOS", "PHL", "PIT", "SLC", "SEA", "CVG", "MCO", "BWI", "DCA", "SAN", "CLE", "MIA", "TPA", "JFK", "OAK",
    "PDX", "BNA", "HOU", "MCI", "SJC", "MEM", "IAD", "MDW", "SMF", "RDU", "FLL", "DAL", "IND", "SNA", "AUS",
    "SAT", "MSY", "ABQ", "CMH", "ONT", "BUR", "MKE", "BDL", "RNO", "TUS", "JAX", "ELP", "OMA", "PVD", "BUF",
    "OKC", "RIC", "TUL", "ROC", "SDF", "ORF", "BHM", "HNL", "PBI", "SYR", "RSW", "ALB", "ANC", "OGG", "DAY",
    "GSO", "LIT", "BOI", "COS", "GRR", "DSM", "GEG", "CHS", "ICT", "TYS", "LBB", "MAF", "PSP", "HSV", "JAN",
    "CAE", "SAV", "MSN", "GSP", "AMA", "LGB", "XNA", "SBA", "PNS", "SHV", "CRP", "HRL", "LEX", "MYR", "PWM",
    "MHT", "BTV", "ISP", "LIH", "KOA", "FAT", "MOB", "BTR", "CID", "FSD", "BIL", "FAI", "JNU", "BZN", "EUG",
];
