//! Real, unmodified Python servers and training loops under `guestscope run`: each request of the client is
//! one request of the agent, with the phases of the libraries that it uses. Feature `servers-tests`;
//! GUESTSCOPE_SERVERS_PYTHON names the interpreter that has the packages.
//!
//! The client is the truth: it counts its requests, times them by its own clock, and sends a trace id with
//! each.
#![cfg(target_os = "linux")]

mod client;
#[allow(dead_code, reason = "the end-to-end tests use more of it")]
#[path = "../e2e/folder.rs"]
mod folder;
#[allow(dead_code, reason = "the end-to-end tests use more of it")]
#[path = "../e2e/ground.rs"]
mod ground;
#[path = "../e2e/kept.rs"]
mod kept;
mod measured;
#[path = "../e2e/natives.rs"]
mod natives;
#[allow(dead_code, reason = "the end-to-end tests use more of it")]
#[path = "../e2e/running.rs"]
mod running;
mod service;
mod training;
mod vllm;
