//! Client connections and servers over a fake network, and over TCP.

mod client_connections;
mod fixture;
mod keys;
mod rejections;
mod replayed;
mod servers;
mod tcp;
mod tls;
