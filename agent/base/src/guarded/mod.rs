//! The only access to files below a directory that another user owns or may write.
//!
//! The agent is root; the directory may belong to the program that it observes. So a directory is held open,
//! everything in it is reached through its descriptor, and no link in it is followed ([`opening`]). A file is
//! created only where no name exists, and is read again through the descriptor that created it ([`Part`]).
//! Files of others are read only if they are regular, of the expected owner and of bounded size
//! ([`Directory::read`]). No owner is changed afterwards: files for a user are created by a thread with that
//! user's rights, so that the kernel decides what is allowed ([`Owner`]). File formats are handled elsewhere.

mod directory;
mod making;
mod one;
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
