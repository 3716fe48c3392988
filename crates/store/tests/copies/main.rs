//! A store and its copies on other hosts: whatever host is lost, another one goes on with everything that was answered.

mod cluster;
mod host;
mod model;
mod shipper;
mod take_over;
