/** Free loopback ports: the remembered or preferred one, else the next free one; any free one when ephemeral. */

import { createServer } from 'node:net'

const PORT_MAX = 65_535

/** Hands out ports, never the same one twice. */
export class Ports {
  readonly #remembered: Readonly<Record<string, number>>
  readonly #any: boolean
  readonly #taken = new Map<string, number>()

  constructor(options: { readonly remembered: Readonly<Record<string, number>>; readonly any: boolean }) {
    this.#remembered = options.remembered
    this.#any = options.any
  }

  /**
   * Takes a port for a listener.
   * @param name under which it is remembered, for example `postgres`
   * @param usable may refuse a free port for a reason of its own
   */
  async take(
    name: string,
    preferred: number,
    usable: (port: number) => boolean = () => true,
  ): Promise<number> {
    for (let port = this.#remembered[name] ?? preferred; ; port += 1) {
      const candidate = this.#any ? await anyPort() : port
      if (candidate > PORT_MAX) throw new Error(`No port from ${preferred} upwards is free for ${name}`)
      if ([...this.#taken.values()].includes(candidate) || !usable(candidate)) continue
      // Kept before the check, since servers take their ports at the same time.
      this.#taken.set(name, candidate)
      if (await isFree(candidate)) return candidate
      this.#taken.delete(name)
    }
  }

  /** What was handed out, to be remembered. */
  taken(): Record<string, number> {
    return { ...this.#remembered, ...Object.fromEntries(this.#taken) }
  }
}

/** Whether nothing listens on a loopback port. */
async function isFree(port: number): Promise<boolean> {
  return (await listen(port)) !== undefined
}

async function anyPort(): Promise<number> {
  const port = await listen(0)
  if (port === undefined) throw new Error('No loopback port is free')
  return port
}

function listen(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(undefined))
    server.listen(port, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : undefined))
    })
  })
}
