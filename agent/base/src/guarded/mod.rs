//! The only access to files below a directory that somebody else owns or may write.
//!
//! The agent is root; the directory may belong to the program that it observes. So a directory is held open,
//! everything in it is reached through its descriptor, and no link is followed there ([`opening`]). A file is
//! made only where no name was, and is read again by the descriptor that made it ([`Part`]). A file of others
//! is read if it is regular, of the expected owner and of bounded size ([`Directory::read`]). Nothing changes
//! its owner: files for a user are made by a thread with that user's rights, so that the kernel decides what
//! is allowed ([`Owner`]). It knows no file formats.

mod directory;
mod making;
mod opening;
mod owner;
mod reading;
mod room;
#[cfg(test)]
mod tests;
mod way;

pub use self::{
    directory::Directory,
    making::create_unique,
    owner::{Assumed, Owner},
    reading::{Part, open_file, open_found, open_no_link, read_again, read_begin, read_list},
    room::{has_room, reserve},
};
