// Builds the image from the binary under test, and runs it with podman or docker.

import { fileURLToPath } from "node:url";
import { binary } from "./origin.mjs";
import { missing, run } from "./tools.mjs";

const script = fileURLToPath(new URL("../../scripts/image.sh", import.meta.url));

/** Limits that machines without all rights allow, too. */
const LIMITS = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"];

/** The image under a name of its own. `missing` says why there is none, or is false. */
export class Image {
  constructor(tool, missing) {
    this.tool = tool;
    this.missing = missing;
    this.name = `latemux-e2e-${process.pid}`;
  }

  /** Builds it with the program that works here, and tries whether it runs. */
  static async build() {
    for (const tool of ["podman", "docker"]) {
      if (await missing(tool, "info")) continue;
      const runtime = tool === "podman" && !(await missing("/usr/sbin/runc", "--version")) ? "runc" : "";
      const image = new Image([tool, ...(runtime && ["--runtime", runtime])], false);
      const environment = [`CONTAINER_TOOL=${tool}`, ...(runtime && [`OCI_RUNTIME=${runtime}`])];
      try {
        await run("env", ...environment, script, binary(), image.name);
        await image.#run("run", "--rm", "--network=host", ...LIMITS, image.name, "--version");
      } catch (error) {
        await image.remove();
        image.missing = `no container runs here: ${error.message.trim().split("\n").at(-1)}`;
      }
      return image;
    }
    return new Image([], "neither podman nor docker works here");
  }

  #run(...arguments_) {
    return run(this.tool[0], ...this.tool.slice(1), ...arguments_);
  }

  /** Starts a container with `options` of the program and `arguments_` of latemux. */
  async start(options, arguments_) {
    const { stdout } = await this.#run("run", "--detach", ...LIMITS, ...options, this.name, ...arguments_);
    const id = stdout.trim();
    const mustRun = async () => {
      const { stdout } = await this.#run("inspect", "--format", "{{.State.Running}}", id);
      if (stdout.trim() !== "true") throw new Error((await this.#run("logs", id)).stderr);
    };
    return {
      /** Returns the URL that the server prints, with its port; rejects if the server has ended. */
      url: async () => {
        for (;;) {
          const { stdout } = await this.#run("logs", id);
          const url = /http:\/\/127\.0\.0\.1:\d+\//.exec(stdout);
          if (url) return url[0];
          await mustRun();
        }
      },
      /** Resolves when the server in it is ready; rejects if it has ended. */
      isReady: async (url) => {
        for (;;) {
          const isReady = await this.#run("exec", id, "/latemux", "health", url).then(() => true, () => false);
          if (isReady) return;
          await mustRun();
        }
      },
      remove: () => this.#run("rm", "--force", id),
    };
  }

  /** Removes it, if there is one. */
  async remove() {
    if (this.tool.length > 0) await this.#run("rmi", "--force", this.name).catch(() => {});
  }
}
