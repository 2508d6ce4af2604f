//! Gives libguestscope-inject.so its name, and links it to nothing.

#[path = "../link.rs"]
mod link;

fn main() {
    link::arguments("libguestscope-inject.so", "../link.rs");
}
