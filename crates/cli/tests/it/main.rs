//! The binary as its users meet it: processes, sockets, files.

mod bucket;
mod client;
mod command_line;
mod crawl;
mod nginx_vod;
mod pack;
mod same_bytes;
mod server;
mod store;
mod tools;
