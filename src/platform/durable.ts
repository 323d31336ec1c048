/** A scope's way to its own workflows. */

import { Problem } from '../core/problem.ts'
import { owns, type TenantRef } from '../core/tenant.ts'
import { Schedules } from './schedules.ts'
import type { Standing } from './standing.ts'
import type { Start, Temporal } from './temporal.ts'

/** Workflows of one ref: every id it takes or gives begins with that ref's prefix. */
export class Durable {
  readonly #ref: TenantRef
  readonly #temporal: Temporal

  constructor(ref: TenantRef, temporal: Temporal) {
    this.#ref = ref
    this.#temporal = temporal
  }

  start(start: Start): Promise<string> {
    return this.#temporal.start(this.#ref, start)
  }

  /** Whether the workflow ended within `waitMs`. A foreign id is the id of nothing: no call is made. */
  ended(id: string, waitMs: number): Promise<boolean> {
    if (!owns(this.#ref, id)) throw new Problem('not_found')
    return this.#temporal.ended(this.#ref, id, waitMs)
  }

  /** What the workflow returned; see {@link Temporal.result}. A foreign id is the id of nothing: no call is made. */
  result(id: string, waitMs: number): Promise<unknown> {
    if (!owns(this.#ref, id)) throw new Problem('not_found')
    return this.#temporal.result(this.#ref, id, waitMs)
  }

  /** Sends a signal; see {@link Temporal.signal}. A foreign id is the id of nothing: no call is made. */
  signal(id: string, signal: { name: string; value: unknown }): Promise<void> {
    if (!owns(this.#ref, id)) throw new Problem('not_found')
    return this.#temporal.signal(this.#ref, id, signal)
  }

  /** Asks for a change; see {@link Temporal.update}. A foreign id is the id of nothing: no call is made. */
  update(id: string, update: { name: string; value: unknown }): Promise<unknown> {
    if (!owns(this.#ref, id)) throw new Problem('not_found')
    return this.#temporal.update(this.#ref, id, update)
  }

  /** Asks it to end; see {@link Temporal.cancel}. A foreign id is the id of nothing: no call is made. */
  cancel(id: string): Promise<void> {
    if (!owns(this.#ref, id)) throw new Problem('not_found')
    return this.#temporal.cancel(this.#ref, id)
  }

  /** How it stands; see {@link Temporal.standing}. A foreign id is the id of nothing: no call is made. */
  standing(id: string): Promise<Standing | undefined> {
    if (!owns(this.#ref, id)) throw new Problem('not_found')
    return this.#temporal.standing(this.#ref, id)
  }

  /** What starts workflows of this ref by the clock. */
  get schedules(): Schedules {
    return new Schedules(this.#ref, this.#temporal)
  }

  uiLink(id: string): string | undefined {
    return this.#temporal.uiLink(id)
  }
}
