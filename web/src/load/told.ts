// What the generator tells, as `crates/load/src/live/state.rs` writes it.

export interface Latency {
  /** Microseconds, as all of them. */
  p50: number;
  p90: number;
  p99: number;
  max: number;
}

/** What a machine did in a second: bytes, bytes per second, and of the processors a part from 0 to 1. */
export interface Use {
  cpu: number;
  memory: number;
  received: number;
  sent: number;
  loopback: number;
}

export interface Sample {
  /** Seconds since the start of the run, at the sample's end. */
  at: number;
  /** Seconds it is of. */
  took: number;
  requests: number;
  errors: number;
  bytes: number;
  players: number;
  stalls: number;
  latency: Latency | null;
  cpu: number;
  memory: number;
  hosts: (Use | null)[];
}

export interface Host {
  name: string;
  cores: number;
  memory: number;
  error: string | null;
}

export interface Told {
  ended: boolean;
  next: number;
  players: { playing: number; came: number };
  totals: { requests: number; errors: number; bytes: number; stalls: number };
  hosts: Host[];
  plan: Record<string, string>;
  shard: string;
  classes: { class: string; count: number; failed: number; bytes: number; latency: Latency | null }[];
  startup: Latency | null;
  stalls: Latency | null;
  stalled: number;
  failures: { reason: string; count: number; example: string }[];
  notes: string[];
  samples: Sample[];
}
