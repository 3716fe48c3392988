//! Lines and servers over faked nets, and over TCP.

mod house;
mod keys;
mod lines;
mod replayed;
mod servers;
mod strangers;
mod tcp;
mod tls;
