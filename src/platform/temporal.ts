/** The Temporal client. Workflow ids are built here from a tenant reference and nowhere else, and checked before any call. */

import {
  Client,
  Connection,
  isGrpcServiceError,
  type ScheduleClient,
  WorkflowExecutionAlreadyStartedError,
  WorkflowFailedError,
  type WorkflowHandle,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
} from '@temporalio/client'
import { ApplicationFailure, type PayloadCodec } from '@temporalio/common'
import { isProblemCode, Problem } from '../core/problem.ts'
import { owns, type TenantRef, workflowId } from '../core/tenant.ts'
import type { QUEUES } from '../core/work.ts'
import type { Config } from './config.ts'
import { NearStarts } from './near-starts.ts'
import { attributesOf, openLine, sealedFor } from './payloads/raw-values.ts'
import { Schedules } from './schedules.ts'

const CALL_DEADLINE_MS = 5_000

export interface Start {
  /** Workflow type: a name exported by src/workflows. */
  readonly type: string
  readonly queue: (typeof QUEUES)[keyof typeof QUEUES]
  /** Third part of the id: a flow, a function, or the name of tenant work. */
  readonly subject: string
  /** Fourth part: the run's UUID. */
  readonly uuid: string
  readonly input: unknown
  /** One line for the operator who reads the Temporal UI. */
  readonly summary: string
  /** What operators find it by, besides tenant and workspace. */
  readonly attributes?: Readonly<Record<string, string>>
  /** Ends the run from outside should it last longer. */
  readonly timeoutMs?: number
  /** Begins so much later. */
  readonly delayMs?: number
}

export class Temporal {
  readonly #connection: Connection
  readonly #client: Client
  readonly #uiUrl: string | undefined
  readonly #namespace: string
  readonly #near: NearStarts | undefined

  /** @param codec what a payload passes on its way to the server and back */
  constructor(config: Config, codec: PayloadCodec) {
    this.#connection = Connection.lazy({ address: config.TEMPORAL_ADDRESS })
    const socket = config.TENON_STARTS_SOCKET
    this.#near = socket === undefined ? undefined : new NearStarts(socket)
    this.#near?.lead(this.#connection.workflowService)
    this.#namespace = config.TEMPORAL_NAMESPACE
    this.#uiUrl = config.TEMPORAL_UI_URL
    this.#client = new Client({
      connection: this.#connection,
      namespace: config.TEMPORAL_NAMESPACE,
      dataConverter: { payloadCodecs: [codec] },
    })
  }

  /** Starts a workflow of the ref's tenant and returns its id. Starting the same id again changes nothing. */
  async start(ref: TenantRef, start: Start): Promise<string> {
    const id = workflowId(ref, start.subject, start.uuid)
    await this.#call(async () => {
      await this.#client.workflow.start(start.type, {
        workflowId: id,
        taskQueue: start.queue,
        args: sealedFor(`start:${start.type}`, start.input),
        workflowIdReusePolicy: 'REJECT_DUPLICATE',
        staticSummary: openLine(start.summary),
        typedSearchAttributes: attributesOf(ref, start.attributes),
        priority: { fairnessKey: ref.tenantId },
        ...(start.timeoutMs !== undefined && { workflowExecutionTimeout: start.timeoutMs }),
        ...(start.delayMs !== undefined && { startDelay: start.delayMs }),
      })
    })
    return id
  }

  /** Waits for a workflow's end, however it ended. @returns whether it ended within `waitMs` */
  async ended(ref: TenantRef, id: string, waitMs: number): Promise<boolean> {
    const handle = this.#handle(ref, id)
    try {
      await this.#before(waitMs, () => handle.result())
      return true
    } catch (error) {
      return !(isGrpcServiceError(error) || causedByGrpc(error))
    }
  }

  /**
   * Waits for a workflow's end.
   * @returns what it returned
   * @throws Problem what an activity of it failed with, as it was thrown there; `run_cut_off` where it was ended from
   *   outside; `dependency_unavailable` where it had not ended within `waitMs`
   */
  async result(ref: TenantRef, id: string, waitMs: number): Promise<unknown> {
    const handle = this.#handle(ref, id)
    try {
      return await this.#before(waitMs, () => handle.result())
    } catch (error) {
      if (error instanceof WorkflowFailedError) throw problemOf(error)
      if (!isGrpcServiceError(error) && !causedByGrpc(error)) throw error
      throw new Problem('dependency_unavailable', { detail: 'The run has not ended yet.', cause: error })
    }
  }

  /**
   * Sends a signal. A workflow that has ended, or has not begun, does not hear it.
   * @throws Problem `state_conflict` where it has heard as many as the server lets it
   */
  async signal(ref: TenantRef, id: string, signal: { name: string; value: unknown }): Promise<void> {
    const handle = this.#handle(ref, id)
    await this.#call(() =>
      unlessGone(
        handle.signal(signal.name, ...sealedFor(`signal:${signal.name}`, signal.value)).catch(unlessFull),
      ),
    )
  }

  /**
   * Asks a running workflow to change something.
   * @returns what it answers; undefined where it has ended, or was never there
   */
  async update(ref: TenantRef, id: string, update: { name: string; value: unknown }): Promise<unknown> {
    const handle = this.#handle(ref, id)
    return this.#call(() =>
      unlessGone(
        handle
          .executeUpdate(update.name, { args: sealedFor(`update:${update.name}`, update.value) })
          .catch(unlessCutOff),
      ),
    )
  }

  /** Asks a workflow to end: it undoes what it must and ends. One that has ended stays as it is. */
  async cancel(ref: TenantRef, id: string): Promise<void> {
    const handle = this.#handle(ref, id)
    await this.#call(() => unlessGone(handle.cancel()))
  }

  /** How a workflow stands, by its id; undefined where there is none, or not any more. */
  async standing(ref: TenantRef, id: string): Promise<Standing | undefined> {
    const handle = this.#handle(ref, id)
    const described = await this.#call(() => unlessGone(handle.describe()))
    return described && standingOf(described.status.name)
  }

  /** A call about schedules, whose ids {@link Schedules} has built. @throws Problem `dependency_unavailable` */
  scheduling<T>(work: (client: ScheduleClient) => Promise<T>): Promise<T> {
    return this.#call(() => work(this.#client.schedule))
  }

  /** A link to the run in the Temporal UI, where one is known. */
  uiLink(id: string): string | undefined {
    if (this.#uiUrl === undefined) return undefined
    return `${this.#uiUrl}/namespaces/${this.#namespace}/workflows/${encodeURIComponent(id)}`
  }

  /** Whether the server answers. */
  async ping(): Promise<void> {
    await this.#call(() => this.#connection.workflowService.getSystemInfo({}))
  }

  async close(): Promise<void> {
    this.#near?.close()
    await this.#connection.close()
  }

  /** @throws TypeError where the id is not of the ref: nobody has checked it before */
  #handle(ref: TenantRef, id: string): WorkflowHandle {
    if (!owns(ref, id)) throw new TypeError(`${id} is not in the id space of its caller`)
    return this.#client.workflow.getHandle(id)
  }

  #before<T>(ms: number, work: () => Promise<T>): Promise<T> {
    return this.#client.withDeadline(Date.now() + ms, work)
  }

  async #call<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await this.#before(CALL_DEADLINE_MS, work)
    } catch (error) {
      if (error instanceof WorkflowExecutionAlreadyStartedError) return undefined as T
      if (!isGrpcServiceError(error) && !causedByGrpc(error)) throw error
      throw new Problem('dependency_unavailable', { detail: 'Temporal does not answer.', cause: error })
    }
  }
}

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

/** Open, or how it has ended: from outside, or by itself. */
export type Standing = 'open' | 'completed' | 'faulted' | 'cancelled' | 'terminated'

const STANDINGS: Readonly<Record<string, Standing>> = {
  COMPLETED: 'completed',
  FAILED: 'faulted',
  TIMED_OUT: 'terminated',
  TERMINATED: 'terminated',
  CANCELLED: 'cancelled',
}

/** @param status its name in the Temporal API; what goes on in a new history is open */
export const standingOf = (status: string): Standing => STANDINGS[status] ?? 'open'

/** What there is no workflow for any more, or never was, is undefined. */
export async function unlessGone<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined
    throw error
  }
}

/** The server counts the signals of a workflow, and refuses more with this text and no code of its own. */
export function unlessFull(error: unknown): never {
  const cause = error instanceof Error ? error.cause : undefined
  const full = [error, cause].some((each) => each instanceof Error && /limit for signal/.test(each.message))
  if (!full) throw error
  throw new Problem('state_conflict', { detail: 'The run has heard as many events as it can.', cause: error })
}

/** A workflow that ended while it was about to answer has ended. */
export function unlessCutOff(error: unknown): undefined {
  const cause = error instanceof WorkflowUpdateFailedError ? error.cause : undefined
  if (cause instanceof ApplicationFailure && cause.type === 'AcceptedUpdateCompletedWorkflow')
    return undefined
  throw error
}

/** The inverse of what the door of activities does with a Problem. */
export function problemOf(error: WorkflowFailedError): Problem {
  for (let cause: unknown = error.cause; cause instanceof Error; cause = cause.cause) {
    if (!(cause instanceof ApplicationFailure) || !isProblemCode(cause.type)) continue
    const members = cause.details?.[1] as Readonly<Record<string, unknown>> | undefined
    return new Problem(cause.type, { detail: cause.message, ...(members && { members }), cause: error })
  }
  return new Problem('run_cut_off', { detail: 'The run was ended from outside.', cause: error })
}

export function causedByGrpc(error: unknown): boolean {
  return error instanceof Error && isGrpcServiceError(error.cause)
}
