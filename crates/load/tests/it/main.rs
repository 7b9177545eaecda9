//! Tests of players with correct and with faulty servers, and of the reports on their runs.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod misbehaviour;
mod playing;
mod reporting;
mod streams;
mod timelines;
