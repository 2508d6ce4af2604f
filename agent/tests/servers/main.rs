//! Real servers and training loops of Python, which nobody edited, under `guestscope run`: each request of
//! the client is one request of the agent's, with the phases of the libraries that it works with. Feature
//! `servers-tests`; the interpreter that has the packages is named by GUESTSCOPE_SERVERS_PYTHON.
//!
//! The truth is the client's: it counts its requests, times them by its own clock, and gives each a trace of
//! its own.
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
