//! Lists of an answer, with one memory bound for all: `{}` is two bytes of JSON and a hundred here.

use std::{cell::Cell, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, SeqAccess, Visitor},
};

/// Maximum for all lists of an answer, bytes: three times the memory of 16 MB of real spans.
const MOST_BYTES: usize = 64 << 20;

thread_local! {
    static LEFT: Cell<usize> = const { Cell::new(0) };
}

/// Gives the answer that is read by this its room.
pub(super) fn with_room<T>(read: impl FnOnce() -> T) -> T {
    LEFT.set(MOST_BYTES);
    read()
}

/// A list.
#[derive(Debug)]
pub(super) struct Bounded<T>(Vec<T>);

impl<T> Default for Bounded<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Bounded<T> {
    pub(super) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }
}

impl<T> IntoIterator for Bounded<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Bounded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Elements(PhantomData))
    }
}

struct Elements<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
    type Value = Bounded<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Bounded<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element()? {
            if list.len() == list.capacity() {
                // The list grows to twice its length.
                let more = list.capacity().max(4) * size_of::<T>();
                let left = LEFT.get().checked_sub(more);
                LEFT.set(
                    left.ok_or_else(|| A::Error::custom("it takes more memory than any answer of Jaeger"))?,
                );
                list.reserve_exact(list.capacity().max(4));
            }
            list.push(element);
        }
        Ok(Bounded(list))
    }
}
