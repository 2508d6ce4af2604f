//! How accounts look and read: one row per account, for bars and charts, and for sentences.
//!
//! Letters and colours of the terminal are of xterm's 256, and distinct with the common kinds of colour
//! blindness; on pages those that are large beside each other differ in colour and hatch.

use guestscope_contract::Account;

use crate::html::Hatch;

/// An account's look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// Its letter in bars.
    pub(crate) letter: char,
    /// Its colour in a terminal, of xterm's 256.
    pub(crate) terminal: u8,
    /// Its colour on pages.
    pub(crate) page: &'static str,
    /// Its hatch on pages.
    pub(crate) hatch: Hatch,
    /// What a request with much of it did.
    pub(crate) verb: &'static str,
    /// The same of several requests.
    pub(crate) verb_of_many: &'static str,
    /// What a thread in it did meanwhile.
    pub(crate) did: &'static str,
}

/// The look of an account.
pub(crate) const fn of(account: Account) -> Look {
    match account {
        Account::Cpu => look('|', 32, "#4878b0", Hatch::None, "needed more CPU time").meanwhile("ran"),
        Account::Runq => {
            look('r', 214, "#e0504a", Hatch::Up, "waited in the run queue").meanwhile("had no CPU")
        }
        Account::Throttled => {
            look('t', 160, "#a8227f", Hatch::Cross, "was throttled").of_many("were throttled")
        }
        Account::BlockIo => look('b', 134, "#8c6a4f", Hatch::Dots, "waited for a block device"),
        Account::Net => look('n', 38, "#3f9a4a", Hatch::Level, "waited for a socket"),
        Account::Poll => look('p', 66, "#8fce85", Hatch::Upright, "waited in poll"),
        Account::Lock => look('l', 178, "#e8b93e", Hatch::Down, "waited for a lock"),
        Account::Gpu => look('g', 71, "#55b3ad", Hatch::None, "waited for the GPU"),
        Account::Fault => look('f', 168, "#f4959f", Hatch::Dots, "slept in page faults"),
        Account::Sleep => look('s', 245, "#cfcfcf", Hatch::None, "slept"),
        Account::Other => {
            look('o', 245, "#7a7370", Hatch::Up, "waited for something without a separate account")
                .meanwhile("waited")
        }
    }
}

const fn look(letter: char, terminal: u8, page: &'static str, hatch: Hatch, verb: &'static str) -> Look {
    Look { letter, terminal, page, hatch, verb, verb_of_many: verb, did: verb }
}

impl Look {
    const fn of_many(self, verb_of_many: &'static str) -> Self {
        Self { verb_of_many, ..self }
    }

    const fn meanwhile(self, did: &'static str) -> Self {
        Self { did, ..self }
    }
}
