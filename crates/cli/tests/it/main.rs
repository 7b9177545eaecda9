//! The binary as its users meet it: processes, sockets, files.

mod client;
mod command_line;
mod crawl;
mod nginx_vod;
mod same_bytes;
mod server;
mod store;
mod tools;
