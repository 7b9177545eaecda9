//! Tests of the binary as users run it, through processes, sockets and files.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod bad_input;
mod bucket;
mod capture;
mod client;
mod command_line;
mod configuration;
mod crawl;
mod deploy;
mod full_disk;
mod image;
mod keys;
mod lab;
mod lab_balance;
mod lab_clean;
mod lab_disk;
mod lab_run;
mod lab_serve;
mod lab_task;
mod lab_usage;
mod load;
mod load_options;
mod messages;
mod mistakes;
mod nginx_vod;
mod open_files;
mod operator;
mod pack;
mod reload;
mod restart;
mod restore;
mod runs;
mod same_bytes;
mod server;
mod setups;
mod setups_storage;
mod signed_keys;
mod start;
mod stopping;
mod store;
mod systemd;
mod thumbnails;
mod tools;
mod two_origins;
mod work_threads;
