//! Tests of the locks: against a model with one lock per byte; retransmissions, waiting requests, deadlocks.

mod model;
mod requests;
mod tester;
