//! Gives libguestscope-cupti.so its name, and links it to nothing.

#[path = "../../marker/link.rs"]
mod link;

fn main() {
    link::arguments("libguestscope-cupti.so", "../../marker/link.rs");
}
