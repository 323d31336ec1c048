/**
 * Starts a platform beside the common one, for test files that kill its processes or change the settings of
 * its servers.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { inject } from 'vitest'
import type { SupervisorEvent } from '../../../stack/supervise.ts'
import { call, createTestWorkspace, type Reply, type TestWorkspace } from '../fixtures/tenants.ts'
import { expectInvariants } from './invariants.ts'
import { type Running, type Started, startPlatform } from './start.ts'

export interface OwnPlatform {
  /** Its folder. */
  readonly dir: string
  readonly started: Started
  readonly workspace: TestWorkspace
  /** One HTTP call of its API. */
  readonly call: BoundCall
  /**
   * Checks the invariants of everything that ran, ends its processes and removes its files; those of a {@link sharedPlatform} stay
   * for the next file.
   */
  end(): Promise<void>
}

export interface SharedPlatform extends OwnPlatform {
  /** Lets the worker crash three more times: after five crashes in a minute the supervisor gives up, unless it is restarted. */
  forgetCrashes(): Promise<void>
  /** What has happened to its worker, in order. */
  readonly workerEvents: readonly SupervisorEvent['type'][]
}

type Make = (at: Running) => Promise<TestWorkspace>

type BoundCall = (
  method: string,
  path: string,
  options?: Omit<NonNullable<Parameters<typeof call>[2]>, 'at'>,
) => Promise<Reply>

const callAt =
  (at: Running): BoundCall =>
  (method, path, options) =>
    call(method, path, { ...options, at })

/**
 * Starts a platform for one test file. @param options as of {@link startPlatform} @param make creates its
 * workspace: one with object storage takes longer
 */
export async function ownPlatform(
  options: Parameters<typeof startPlatform>[1],
  make: Make = createTestWorkspace,
): Promise<OwnPlatform> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-own-'))
  const leave = () => rm(dir, { recursive: true, force: true })
  try {
    const started = await startPlatform(dir, options)
    const end = async () => {
      try {
        await expectInvariants(started.running)
      } finally {
        await started.stop()
        await leave()
      }
    }
    const workspace = await make(started.running).catch(async (error: unknown) => {
      await end()
      throw error
    })
    return { dir, started, workspace, call: callAt(started.running), end }
  } catch (error) {
    await leave()
    throw error
  }
}

/** How many signals an execution of a {@link sharedPlatform} may receive; by default it is 10,000. */
export const SIGNALS_MAX = 100
/** How many updates, which are commands with a response; by default it is 2,000. */
export const UPDATES_MAX = 40

/** The platform of this process's test files, which run one after the other. */
let shared: { readonly dir: string; readonly started: Started } | undefined
/** When the worker of the shared platform crashed. */
let crashesMs: number[] = []
let workerEvents: SupervisorEvent['type'][] = []
/** Ends it if no file follows that needs it: its servers take time of the processor even if nothing happens. */
let idle: NodeJS.Timeout | undefined
const IDLE_MS = 3_000
const CRASH_WINDOW_MS = 60_000

/**
 * A platform with a workspace of its own that test files share, to kill its processes: its servers keep their
 * data when they crash. @param make as of {@link ownPlatform}
 */
export async function sharedPlatform(make: Make = createTestWorkspace): Promise<SharedPlatform> {
  clearTimeout(idle)
  shared ??= await startShared()
  const current = shared
  await forgetCrashes(current.started)
  const workspace = await make(current.started.running).catch((error: unknown) => {
    endWhenIdle()
    throw error
  })
  return {
    ...current,
    workspace,
    call: callAt(current.started.running),
    workerEvents,
    forgetCrashes: () => forgetCrashes(current.started),
    end: async () => {
      await expectInvariants(current.started.running).finally(endWhenIdle)
    },
  }
}

async function startShared(): Promise<{ dir: string; started: Started }> {
  // The common platform's folder is removed after all tests.
  const dir = await mkdtemp(join(dirname(inject('tenon').logs), 'own-'))
  crashesMs = []
  workerEvents = []
  const started = await startPlatform(dir, {
    lasting: true,
    servers: {
      TEMPORAL_DYNAMIC_CONFIG: `history.maximumSignalsPerExecution=${SIGNALS_MAX} history.maxTotalUpdates=${UPDATES_MAX}`,
    },
    onEvent: ({ name, type }) => {
      if (name !== 'worker') return
      workerEvents.push(type)
      if (type === 'exited') crashesMs.push(Date.now())
    },
  })
  return { dir, started }
}

/** A restart takes the worker seconds of the processor, so there is none after a single crash. */
async function forgetCrashes({ stack }: Started): Promise<void> {
  const recent = crashesMs.filter((at) => at > Date.now() - CRASH_WINDOW_MS)
  if (recent.length < 2) return
  await stack.supervisor.restart('worker')
  crashesMs = []
}

function endWhenIdle(): void {
  idle = setTimeout(() => {
    void shared?.started.stop()
    shared = undefined
  }, IDLE_MS).unref()
}

/**
 * The pid that the supervisor reports, so that only what this platform started gets a signal. @param name as the supervisor has it
 * @throws Error while it does not run
 */
export function pidOf({ stack }: Started, name: string): number {
  const pid = stack.supervisor.pid(name)
  if (pid === undefined) throw new Error(`${name} does not run`)
  return pid
}

/** Crashes a server or a process; the supervisor starts another one. @returns the pid of the one that was killed */
export function killServer(started: Started, name: string): number {
  const pid = pidOf(started, name)
  process.kill(pid, 'SIGKILL')
  return pid
}

/** Stops a server without closing its port, which is harder to detect than a crash. @param name as the supervisor has it */
export async function whileStopped<T>(started: Started, name: string, work: () => Promise<T>): Promise<T> {
  const pid = pidOf(started, name)
  process.kill(pid, 'SIGSTOP')
  try {
    return await work()
  } finally {
    process.kill(pid, 'SIGCONT')
  }
}
