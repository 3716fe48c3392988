//! Client connections and servers over a fake network, and over TCP.

mod client_connections;
mod copies;
mod fixture;
mod keys;
mod rejections;
mod replayed;
mod send_deadline;
mod servers;
mod tcp;
mod tls;
