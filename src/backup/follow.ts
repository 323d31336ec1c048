/** Continues the latest backup: every few seconds the log and new bytes of objects go to the repository, and a moment ends. */

import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { BackupUnderWay, type CreateOptions, createBackup, findKnown } from './create.ts'
import { type Chain, listChains, readMoment, type States, writeMoment } from './manifests.ts'
import { WalReceiver } from './postgres/wal-receiver.ts'
import { copyStates } from './states.ts'
import { type Backing, type Before, Interrupted, takeMoment } from './take-moment.ts'

/** One for the installation: the server refuses a second process that follows. */
const SLOT = 'tenon_follow'

export interface FollowOptions extends Omit<CreateOptions, 'incremental' | 'signal'> {
  /** Milliseconds from one moment to the next: what is lost at most with everything but the repository. */
  readonly everyMs: number
  /** Milliseconds between two copies of what has no log, such as Temporal's file. */
  readonly statesMs: number
  /** Is told each moment. */
  readonly onMoment: (at: string) => void
  readonly signal: AbortSignal
}

/** A chain, and how far it is. */
interface Position {
  readonly chain: string
  readonly before: Before
  readonly statesAtMs: number
}

/** Until the signal aborts. It goes on after servers were away, and makes a backup if what there is cannot be continued. */
export async function followBackups(options: FollowOptions): Promise<void> {
  const { everyMs, signal, onNotice } = options
  let follower: Follower | undefined
  /** Since the last success. */
  const told = new Set<string>()
  const tell = ({ message }: Error) => {
    if (!told.has(message)) onNotice(message)
    told.add(message)
  }
  try {
    while (!signal.aborted) {
      const beganMs = performance.now()
      try {
        follower ??= await Follower.start(options)
        await follower.step()
        told.clear()
      } catch (error) {
        if (signal.aborted) return
        tell(error as Error)
        // Another one begins with what the repository has then.
        await follower?.stop()
        follower = undefined
        if (error instanceof Interrupted) await createNew(options, tell)
      }
      await pause(Math.max(0, everyMs - (performance.now() - beganMs)), undefined, { signal }).catch(() => {})
    }
  } finally {
    await follower?.stop()
  }
}

/** Another process may be making a backup already: the next turn continues that one. */
async function createNew(options: FollowOptions, tell: (error: Error) => void): Promise<void> {
  try {
    await createBackup({ ...options, incremental: false })
  } catch (error) {
    if (!(error instanceof BackupUnderWay)) throw error
    tell(error)
  }
}

class Follower {
  readonly #options: FollowOptions
  readonly #backing: Backing
  #position: Position

  private constructor(options: FollowOptions, backing: Backing, position: Position) {
    this.#options = options
    this.#backing = backing
    this.#position = position
  }

  /** Starts at the end of the latest chain, and with a backup if there is none. */
  static async start(options: FollowOptions): Promise<Follower> {
    const { installation, repository, onNotice, signal } = options
    const { programs, databaseUrl: url, folder } = installation
    const receiver = await WalReceiver.start({
      programs,
      url,
      slot: SLOT,
      folder: join(folder, SLOT),
      repository,
    })
    try {
      if ((await listChains(repository)).length === 0) await createBackup({ ...options, incremental: false })
      const backing = {
        installation,
        repository,
        receiver,
        known: await findKnown(repository),
        onNotice,
        signal,
      }
      return new Follower(options, backing, await findEnd(options, await latest(options)))
    } catch (error) {
      await receiver.stop(false)
      throw error
    }
  }

  /** Ends a moment; then goes over to a newer backup, which another process may have made. @throws Interrupted */
  async step(): Promise<void> {
    const { repository, onMoment } = this.#options
    const { chain } = this.#position
    const newest = await latest(this.#options)
    const at = await repository.store.sharing(async () => {
      const before = await this.#withStates()
      const { moment, named } = await takeMoment(this.#backing, before)
      await writeMoment(repository, chain, moment)
      this.#position = {
        ...this.#position,
        before: { at: moment.at, lastWal: moment.last_wal, states: moment.states, named },
      }
      return moment.at
    })
    onMoment(at)
    // The chain has reached beyond the first moment of the newer one, so that no time between them is left out.
    if (newest.id !== chain) this.#position = await findEnd(this.#options, newest)
  }

  stop(): Promise<void> {
    return this.#backing.receiver.stop(false)
  }

  /** Their copies are of a time before the moment that names them. */
  async #withStates(): Promise<Before> {
    const { before, statesAtMs } = this.#position
    if (Date.now() - statesAtMs < this.#options.statesMs) return before
    const { installation, repository } = this.#options
    const states = await copyStates(installation, repository, new Date().toISOString(), this.#backing.known)
    this.#position = { ...this.#position, statesAtMs: Date.now() }
    return { ...before, states }
  }
}

async function latest({ repository }: FollowOptions): Promise<Chain> {
  const chain = (await listChains(repository)).at(-1)
  if (chain === undefined) throw new Interrupted('the repository has no backup')
  return chain
}

async function findEnd({ repository }: FollowOptions, chain: Chain): Promise<Position> {
  const {
    at,
    last_wal: lastWal,
    states,
  } = await readMoment(repository, chain, chain.moments.at(-1) ?? chain.id)
  return {
    chain: chain.id,
    before: { at, lastWal, states, named: new Set() },
    statesAtMs: copiedAtMs(states),
  }
}

const copiedAtMs = ({ temporal }: States): number => (temporal === undefined ? 0 : Date.parse(temporal.at))
