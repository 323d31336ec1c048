/** Receives PostgreSQL's write-ahead log as it is written, with pg_receivewal, and stores its segments in the repository. */

import { createReadStream } from 'node:fs'
import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Member, Repository } from '../repository/repository.ts'
import { BoundProgram, connectionOf, type Programs, runProgram } from './programs.ts'
import { isHistory, parseSegment } from './wal-names.ts'

const FOLDER = 'wal'
const LOOK_MS = 50

export const walName = (segment: string): string => `${FOLDER}/${segment}`

export class WalReceiver {
  readonly #options: ReceiverOptions
  readonly #program: BoundProgram
  #failure: string | undefined

  private constructor(options: ReceiverOptions, program: BoundProgram) {
    this.#options = options
    this.#program = program
    const { child } = program
    let stderr = ''
    child.stderr?.on('data', (chunk: Buffer) => {
      stderr = `${stderr}${chunk}`.slice(-2_000)
    })
    child.once('error', (error) => {
      this.#failure = error.message
    })
    child.once('close', (code) => {
      this.#failure ??= `pg_receivewal ended with code ${code}: ${stderr.trim()}`
    })
  }

  /**
   * Starts to receive behind what the slot has confirmed, or at the current position with a new slot. The server keeps the log for a slot
   * that nobody reads, up to its `max_slot_wal_keep_size`.
   * @throws Error if there is no server, or its role has no right to replicate
   */
  static async start(options: ReceiverOptions): Promise<WalReceiver> {
    const { programs, url, slot, folder } = options
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const { args, env } = connectionOf(url)
    const common = [...args, `--slot=${slot}`]
    await runProgram(programs, 'pg_receivewal', [...common, '--create-slot', '--if-not-exists'], { env })
    // It connects again by itself after a restart of the server. What it confirms is on the disk.
    const receive = [...common, '--directory', folder, '--synchronous']
    const program = new BoundProgram(join(programs.bin, 'pg_receivewal'), receive, {
      ...{ stdio: ['ignore', 'ignore', 'pipe'], env },
    })
    return new WalReceiver(options, program)
  }

  /** Waits until a segment is complete. @throws Error if pg_receivewal ends, or the signal aborts */
  async waitFor(segment: string, signal?: AbortSignal): Promise<void> {
    for (;;) {
      const received = await this.#received()
      if (received.some((name) => name >= segment && parseSegment(name) !== undefined)) return
      if (this.#failure !== undefined) throw new Error(this.#failure)
      await pause(LOOK_MS, undefined, signal && { signal })
    }
  }

  /** Stores the complete segments up to one, and forgets them here. @returns those that the repository did not have */
  async store(last: string): Promise<Member[]> {
    const { repository, folder } = this.#options
    const stored: Member[] = []
    for (const segment of await this.#received()) {
      if (segment > last && !isHistory(segment)) continue
      // Another process that backs up may have stored the same bytes.
      if (!(await repository.store.has(walName(segment))))
        stored.push(
          await repository.writeCompressed(walName(segment), createReadStream(join(folder, segment))),
        )
      if (segment !== last) await rm(join(folder, segment))
    }
    return stored
  }

  /** @param forget removes the slot: the server keeps nothing more for it */
  async stop(forget: boolean): Promise<void> {
    await this.#program.end()
    if (!forget) return
    const { programs, url, slot, folder } = this.#options
    const { args, env } = connectionOf(url)
    await runProgram(programs, 'pg_receivewal', [...args, `--slot=${slot}`, '--drop-slot'], { env })
    await rm(folder, { recursive: true, force: true })
  }

  /** In their order: `.partial` is the end of the name of one that is still being received. */
  async #received(): Promise<string[]> {
    const names = await readdir(this.#options.folder)
    return names.filter((name) => parseSegment(name) !== undefined || isHistory(name)).sort()
  }
}

export interface ReceiverOptions {
  readonly programs: Programs
  /** Of a role that may replicate. */
  readonly url: string
  readonly slot: string
  /** For segments until they are in the repository. */
  readonly folder: string
  readonly repository: Repository
}
