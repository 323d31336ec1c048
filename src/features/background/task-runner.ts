/** Runs the tasks of all features on one process at a time, so that none of them waits for another. */

import type { WorkspaceRef } from '../../core/tenant.ts'
import type { Log } from '../../infra/log.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { type Leadership, LeaderTask } from '../../infra/postgres/leader-task.ts'
import { Backoff } from '../../infra/retry.ts'
import type { BackgroundTask, TaskContext } from './background-task.ts'
import { BACKGROUND_LIMITS } from './limits.ts'

const { firstMs, retryMs } = BACKGROUND_LIMITS
const DEFAULTS: { readonly lock: number; readonly firstMs: number } = { lock: 7_302_519, firstMs }

type OpenContext = (ref: WorkspaceRef) => Promise<TaskContext>

export class TaskRunner {
  readonly #leader: LeaderTask
  readonly #log: Log
  readonly #firstMs: number
  readonly #served = new Map<string, Served>()

  /** @param options the advisory lock, and the pause before the first look, in milliseconds */
  constructor(database: Database, log: Log, options = DEFAULTS) {
    const { lock } = options
    const spec = { reason: 'reconciler', lock, failureMessage: 'background tasks failed' } as const
    this.#leader = new LeaderTask(database, spec, log)
    this.#log = log
    this.#firstMs = options.firstMs
  }

  /** Runs until it is closed. Every worker starts it; one of them is the leader. */
  start(tasks: readonly BackgroundTask[], open: OpenContext): void {
    this.#leader.start(async (leadership) => {
      // The previous leader may have died during work that Temporal resumes by itself.
      await leadership.wait(this.#firstMs)
      const running = tasks.map(
        (task) => new RunningTask(task, { leadership, open, log: this.#log, served: this.#servedOf(task) }),
      )
      await Promise.all(running.map((task) => task.run()))
    })
  }

  /** The items that this process has served, by the name of their task. */
  get served(): ReadonlyMap<string, Readonly<Served>> {
    return this.#served
  }

  #servedOf({ name }: BackgroundTask): Served {
    const served = this.#served.get(name) ?? { done: 0, failed: 0 }
    this.#served.set(name, served)
    return served
  }

  /** Finishes the items under way. */
  close(): Promise<void> {
    return this.#leader.close()
  }
}

/** Items of a task that were served, and attempts that failed. */
interface Served {
  done: number
  failed: number
}

interface TaskServices {
  readonly served: Served
  readonly leadership: Leadership
  readonly open: OpenContext
  readonly log: Log
}

/** Finds items of one task and serves them at the same time. */
class RunningTask {
  readonly #task: BackgroundTask
  readonly #services: TaskServices
  /** Items under way by their JSON. */
  readonly #underWay = new Map<string, Promise<void>>()
  /** All tasks share one connection, which a slow statement keeps from the others: it is repeated later and later. */
  readonly #backoff = new Backoff(retryMs)

  constructor(task: BackgroundTask, services: TaskServices) {
    this.#task = task
    this.#services = services
  }

  /** Never rejects. Waits for the items under way at the end. */
  async run(): Promise<void> {
    const { leadership } = this.#services
    while (!leadership.isOver) await leadership.wait(await this.#look())
    await Promise.all(this.#underWay.values())
  }

  /** @returns the pause before the next look, in milliseconds */
  async #look(): Promise<number> {
    const { leadership, log } = this.#services
    const { name, atOnce, pollMs } = this.#task
    const room = atOnce - this.#underWay.size
    try {
      const found = room > 0 ? await this.#task.find(leadership.system, room) : []
      for (const { ref, item } of found) this.#serve(ref, item)
      this.#backoff.reset()
      leadership.resetBackoff()
      return pollMs
    } catch (error) {
      const waitMs = this.#backoff.next()
      // After the loss of the connection, the next leader looks at once.
      if (!leadership.isOver)
        log.warn({ err: error, task: name, retryMs: waitMs }, 'background task found nothing')
      return waitMs
    }
  }

  #serve(ref: WorkspaceRef, item: unknown): void {
    const key = JSON.stringify([ref, item])
    if (this.#underWay.has(key)) return
    const { open, log, served } = this.#services
    const serving = open(ref)
      .then((context) => this.#task.run(context, item))
      .then(
        () => {
          served.done += 1
        },
        (error: unknown) => {
          served.failed += 1
          log.warn({ err: error, task: this.#task.name, ref, item }, 'background task failed')
        },
      )
      .finally(() => this.#underWay.delete(key))
    this.#underWay.set(key, serving)
  }
}
