//! The log on a disk that crashes: durable batches are there, all recovered batches were staged, and damage is
//! distinguished from torn tails.

mod batches;
mod damage;
mod fixture;
mod model;
mod space;
mod survey;
