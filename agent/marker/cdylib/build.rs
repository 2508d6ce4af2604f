//! Gives libguestscope.so.1 its name, and links it to nothing.

#[path = "../link.rs"]
mod link;

fn main() {
    link::arguments("libguestscope.so.1", "../link.rs");
}
