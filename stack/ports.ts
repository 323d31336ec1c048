/**
 * Allocates free loopback ports: the remembered or preferred one, else the next free one; random ones for ephemeral stacks. A file
 * reserves each for this process among those of Tenon; listeners are started again if another process was faster.
 */

import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { cacheDir } from './binaries.mjs'
import { tryLock } from './lock.mjs'

const PORT_MAX = 65_535
/**
 * Below the ephemeral ports of systems (Linux from 32768, others from 49152, RFC 6335), so that no other process gets the
 * port by chance between the check and the start of the listener.
 */
const ANY_FROM = 15_000
const ANY_TO = 32_000

/** How often a start is repeated: with several installations that start at once, it is rare that one repetition fails. */
const REPETITIONS_MAX = 3

/** Another process has taken a port between the check that it is free and the start of the listener. */
export class PortTaken extends Error {
  /** @param port undefined if the server does not say which */
  constructor(server: string, port: string | undefined) {
    const which = port === undefined ? 'One of its ports' : `The port ${port}`
    super(`${which} was taken by another process while ${server} started.`)
    this.name = 'PortTaken'
  }
}

/**
 * Starts something that listens, and up to three times again if a port was taken meanwhile.
 * @param start takes its ports each time, see {@link Ports.take}
 * @param onRepeat is told why, before each repetition
 * @throws what a start throws for another reason; Error if a port is taken the fourth time
 */
export async function onFreePorts<T>(
  start: () => Promise<T>,
  onRepeat: (reason: string) => void = () => {},
): Promise<T> {
  for (let repetition = 0; ; repetition += 1) {
    try {
      return await start()
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      if (!(error instanceof PortTaken) && code !== 'EADDRINUSE') throw error
      if (repetition === REPETITIONS_MAX)
        throw new Error(`${message} So were others, ${REPETITIONS_MAX} times: start again.`, { cause: error })
      onRepeat(message)
    }
  }
}

/** Allocates each port once; no other process of this user that asks here gets it until it is released, or this process ends. */
export class Ports {
  readonly #remembered: Readonly<Record<string, number>>
  readonly #any: boolean
  readonly #reserved = new Map<string, number>()
  /** Releases the reservation of each port. */
  readonly #locks = new Map<number, () => void>()

  constructor(options: { readonly remembered: Readonly<Record<string, number>>; readonly any: boolean }) {
    this.#remembered = options.remembered
    this.#any = options.any
  }

  /**
   * Takes a port for a listener. Asked again for the same listener, it returns the same port if that is free still.
   * @param name under which it is remembered, for example `postgres`
   * @param usable may refuse a free port for a reason of its own
   */
  async take(
    name: string,
    preferred: number,
    usable: (port: number) => boolean = () => true,
  ): Promise<number> {
    const before = this.#reserved.get(name)
    this.#reserved.delete(name)
    if (before !== undefined && (await this.#claim(name, before))) return before
    for (let port = this.#remembered[name] ?? preferred; ; port += 1) {
      if (port > PORT_MAX) throw new Error(`No port from ${preferred} upwards is free for ${name}`)
      const candidate = this.#any ? randomInt(ANY_FROM, ANY_TO) : port
      if (usable(candidate) && (await this.#claim(name, candidate))) return candidate
    }
  }

  /**
   * Takes one of a few ports for a listener. Asked again for the same listener, it returns the same port if that is free still.
   * @returns undefined if none of them is free
   */
  async takeAny(name: string, candidates: readonly number[]): Promise<number | undefined> {
    const before = this.#reserved.get(name) ?? (this.#any ? undefined : this.#remembered[name])
    const first =
      before === undefined && this.#any ? randomInt(candidates.length) : candidates.indexOf(before ?? 0)
    this.#reserved.delete(name)
    const at = Math.max(first, 0)
    for (const candidate of [...candidates.slice(at), ...candidates.slice(0, at)]) {
      if (await this.#claim(name, candidate)) return candidate
    }
    return undefined
  }

  /** Returns the allocated ports, to be remembered. */
  reserved(): Record<string, number> {
    return { ...this.#remembered, ...Object.fromEntries(this.#reserved) }
  }

  /** When the listeners have ended: others may have their ports. */
  release(): void {
    for (const release of this.#locks.values()) release()
    this.#locks.clear()
  }

  async #claim(name: string, port: number): Promise<boolean> {
    if ([...this.#reserved.values()].includes(port)) return false
    // Registered before the check, since servers start in parallel.
    this.#reserved.set(name, port)
    if (this.#lock(port) && (await isFree(port))) return true
    this.#locks.get(port)?.()
    this.#locks.delete(port)
    this.#reserved.delete(name)
    return false
  }

  /** Between the check that a port is free and the start of its listener pass seconds, in which other starts would choose it. */
  #lock(port: number): boolean {
    if (this.#locks.has(port)) return true
    const release = reserve(port)
    if (release !== undefined) this.#locks.set(port, release)
    return release !== undefined
  }
}

/** Those of this process, which leaves none behind. */
const reservations = new Map<number, () => void>()
process.once('exit', () => {
  for (const release of reservations.values()) release()
})

/** @returns releases the reservation; undefined if another allocation has it */
function reserve(port: number): (() => void) | undefined {
  try {
    const lock = tryLock(join(cacheDir(), 'ports', String(port)))
    if ('owner' in lock) return undefined
    reservations.set(port, lock.release)
    return () => {
      reservations.delete(port)
      lock.release()
    }
  } catch {
    // Without a folder to write to, a listener that finds its port taken is started again.
    return () => {}
  }
}

/** True if nothing listens on a loopback port. */
function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
