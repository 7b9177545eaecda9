// The data that the page shows, as `crates/load/src/page/data.rs` and
// `crates/load/src/live/state.rs` write it.

/** Values of a distribution, in the unit of what was measured. Times are in microseconds. */
export interface Quantiles {
  mean: number;
  p50: number;
  p90: number;
  p99: number;
  max: number;
}

/**
 * The usage of a machine in one second. `cpu` is the used share of all its cores, from 0 to 1. The
 * other values are bytes, or bytes per second.
 */
export interface HostUse {
  cpu: number;
  memory: number;
  received: number;
  sent: number;
  loopback: number;
}

/** The events of one second of a run. */
export interface Sample {
  /** Seconds from the start of the run to the end of the sample. */
  at: number;
  /** Seconds that the sample covers. */
  took: number;
  requests: number;
  errors: number;
  bytes: number;
  players: number;
  stalls: number;
  /** The latency of the requests that ended; `null` if none did. A report has only the mean. */
  latency: (Pick<Quantiles, "mean"> & Partial<Quantiles>) | null;
}

/** A sample of a run in progress, with the resources in use. */
export interface LiveSample extends Sample {
  /** The share of its cores' time that the generator used, from 0 to 1. */
  cpu: number;
  /** Bytes of memory the generator uses. */
  memory: number;
  /** This machine and the watched ones, in the order of `LiveData.hosts`. */
  hosts: (HostUse | null)[];
}

export interface Host {
  name: string;
  cores: number;
  memory: number;
  /** The reason why nothing is known about the machine; `null` if its usage is known. */
  error: string | null;
}

/** A row of the table of requests. */
export interface ClassRow {
  class: string;
  count: number;
  failed: number;
  bytes: number;
  latency: Quantiles | null;
}

/** A row of the table of players. */
export interface PlayerRow {
  name: string;
  unit: "time" | "bits" | "score";
  count: number;
  values: Quantiles | null;
}

/** Sums of one run. */
export interface Sums {
  plan: Record<string, string>;
  shard: string;
  /** The start in milliseconds since 1970; 0 if it is unknown. */
  started: number;
  /** The machines that generated the load, and their versions of latemux. */
  machines: string[];
  versions: string[];
  classes: ClassRow[];
  viewers: PlayerRow[];
  failures: { reason: string; count: number; example: string }[];
  notes: string[];
  totals: { requests: number; errors: number; bytes: number; stalls: number };
  players: { playing: number; came: number };
}

/** A response of `/live.json`. */
export interface LiveData extends Sums {
  ended: boolean;
  /** The index of the first sample to request next. */
  next: number;
  hosts: Host[];
  samples: LiveSample[];
}

/** Values of one kind by the share of all that are at most as high. */
export interface Distribution {
  name: string;
  /** The value below which a share of 1 - 10^(-index / 20) lies, in microseconds. */
  points: number[];
}

/** One run in a report. */
export interface ReportRun extends Sums {
  name: string;
  /** Seconds the run lasted. */
  took: number;
  /** Latency of all requests. */
  latency: Quantiles | null;
  /** A sentence about the resources that the generator used. */
  generator: string;
  samples: Sample[];
  latencies: Distribution[];
  startup: Distribution[];
}

/** The data embedded in a report. */
export interface ReportData {
  runs: ReportRun[];
}
