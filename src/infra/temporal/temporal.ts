/** The Temporal client. Workflow ids are built here from a tenant reference and nowhere else, and checked before any call. */

import {
  Client,
  Connection,
  defaultGrpcRetryOptions,
  makeGrpcRetryInterceptor,
  WorkflowExecutionAlreadyStartedError,
  WorkflowFailedError,
  type WorkflowHandle,
  WorkflowNotFoundError,
  type WorkflowService,
  WorkflowUpdateFailedError,
} from '@temporalio/client'
import { ApplicationFailure, type PayloadCodec, TimeoutFailure } from '@temporalio/common'
import { Problem } from '../../core/problem.ts'
import { isProblemCode } from '../../core/problem-catalogue.ts'
import { owns, type TenantRef, workflowId } from '../../core/tenant.ts'
import type { Config } from '../config.ts'
import type { IdleQueue } from '../health-report.ts'
import { INFRA_LIMITS } from '../limits.ts'
import { retryTransient } from '../retry.ts'
import { currentTrace } from '../trace-context.ts'
import { CallLimiter, type StartReservation } from './call-limiter.ts'
import { clientOptions } from './connection.ts'
import {
  GRPC,
  isDiscardedUpdate,
  isExhausted,
  isGrpcError,
  isOverload,
  isUnknownWork,
  toProblem,
} from './errors.ts'
import { findIdleQueues } from './idle-queues.ts'
import { findNamespaceFault, type NamespaceFault } from './namespace.ts'
import { OwnedWork } from './owned-work.ts'
import { hasReceivedSignal } from './received-signals.ts'
import { Schedules, unlessThrown } from './schedules.ts'
import { plaintextSummary, type Start, searchAttributesOf, withPurpose } from './start-values.ts'
import { describeTaskQueues, type TaskQueueState } from './task-queues.ts'

const { callMs: CALL_DEADLINE_MS, pauseMs: EXHAUSTED_PAUSE_MS } = INFRA_LIMITS.temporalCalls
const DISCARDED_PAUSE_MS = { min: 20, max: 500 }

const DEFAULT_RETRIES = defaultGrpcRetryOptions()

/** Calls of an exhausted server are repeated by {@link callTemporal}, which slows all calls of the process down. */
const RETRIES = makeGrpcRetryInterceptor({
  ...DEFAULT_RETRIES,
  retryableDecider: (attempt, status) =>
    status.code !== GRPC.RESOURCE_EXHAUSTED && DEFAULT_RETRIES.retryableDecider(attempt, status),
})

/** Calls that only look, and are made again soon: an attempt that waits for its turn would outlive the connection at a stop. */
const LOOKS = /\/(DescribeNamespace|DescribeTaskQueue|ListSearchAttributes)$/

/** Repeats all calls but those that only look. */
const retryAllButLooks: typeof RETRIES = (options, nextCall) =>
  LOOKS.test(options.method_definition.path)
    ? (nextCall(options) as ReturnType<typeof RETRIES>)
    : RETRIES(options, nextCall)

export type WorkflowStatus = 'open' | 'completed' | 'faulted' | 'cancelled' | 'terminated' | 'timed_out'

/** By the name in the Temporal API; a workflow that continued as new is open. */
const STATUSES: Readonly<Record<string, WorkflowStatus>> = {
  COMPLETED: 'completed',
  FAILED: 'faulted',
  TIMED_OUT: 'timed_out',
  TERMINATED: 'terminated',
  CANCELLED: 'cancelled',
}

interface TemporalOptions {
  /** Changes the SDK's client before its first call (activities/sdk-patches). @returns closes what the change has opened */
  readonly patch?: ((service: WorkflowService) => () => void) | undefined
  /** As in {@link CallLimiter}. */
  readonly refusesStarts: boolean
}

/** The parts that all calls of a process to the server share. */
interface Calls {
  readonly client: CountingClient
  readonly limiter: CallLimiter
}

/** Calls of Temporal until now, without those that wait for a result. */
export interface TemporalCalls {
  readonly ok: number
  readonly failed: number
  readonly ms: number
}

class CountingClient extends Client {
  readonly calls = { ok: 0, failed: 0, ms: 0 }
}

export class Temporal {
  readonly #connection: Connection
  readonly #client: CountingClient
  readonly #calls: Calls
  readonly #uiUrl: string | undefined
  readonly #namespace: string
  readonly #unpatch: (() => void) | undefined
  /** The namespace had all search attributes once; they are never removed. */
  #isFit = false

  /** @param codec encodes payloads on their way to the server and decodes them on their way back */
  constructor(config: Config, codec: PayloadCodec, { patch, refusesStarts }: TemporalOptions) {
    this.#connection = Connection.lazy({
      ...clientOptions(config.TEMPORAL),
      interceptors: [retryAllButLooks],
    })
    this.#unpatch = patch?.(this.#connection.workflowService)
    this.#namespace = config.TEMPORAL.namespace
    this.#uiUrl = config.TEMPORAL_UI_URL
    this.#client = new CountingClient({
      connection: this.#connection,
      namespace: config.TEMPORAL.namespace,
      dataConverter: { payloadCodecs: [codec] },
    })
    this.#calls = { client: this.#client, limiter: new CallLimiter(refusesStarts) }
  }

  workflowsOf(ref: TenantRef): TenantWorkflows {
    const uiPrefix = this.#uiUrl && `${this.#uiUrl}/namespaces/${this.#namespace}/workflows/`
    return new TenantWorkflows(ref, this.#calls, uiPrefix)
  }

  /** Asks for the namespace. @throws the error of the service, after one attempt: a repetition would hide its reason */
  async ping(): Promise<void> {
    const namespace = this.#namespace
    const ask = () => this.#connection.workflowService.describeNamespace({ namespace })
    await this.#client.withDeadline(Date.now() + CALL_DEADLINE_MS, ask)
  }

  /** The fault of the namespace, and its remedy for the operator; undefined if it has none, or had none at an earlier check. */
  async findFault(): Promise<NamespaceFault | undefined> {
    if (this.#isFit) return undefined
    const fault = await this.#check(() => findNamespaceFault(this.#connection, this.#namespace))
    this.#isFit = fault === undefined
    return fault
  }

  taskQueues(): Promise<readonly TaskQueueState[]> {
    return this.#check(() => describeTaskQueues(this.#connection, this.#namespace))
  }

  get calls(): TemporalCalls {
    return this.#client.calls
  }

  /** The task queues that no worker polls. @param identity of a worker: those that this one does not poll */
  idleQueues(identity?: string): Promise<readonly IdleQueue[]> {
    return this.#check(() => findIdleQueues(this.#connection, this.#namespace, { identity }))
  }

  /** A few calls that check the server: beside the limiter, since they must not wait behind what they are to explain. */
  async #check<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await this.#client.withDeadline(Date.now() + CALL_DEADLINE_MS, work)
    } catch (error) {
      throw toProblem(error)
    }
  }

  async close(): Promise<void> {
    this.#unpatch?.()
    await this.#connection.close()
  }
}

/**
 * The workflows of one tenant reference. Every id in its arguments and results begins with the reference's prefix; for any
 * other id each method throws Problem `not_found` before it calls the server. All throw the problems of {@link toProblem}.
 */
export class TenantWorkflows {
  readonly #ref: TenantRef
  readonly #calls: Calls
  readonly #client: CountingClient
  readonly #uiPrefix: string | undefined

  constructor(ref: TenantRef, calls: Calls, uiPrefix: string | undefined) {
    this.#ref = ref
    this.#calls = calls
    this.#client = calls.client
    this.#uiPrefix = uiPrefix
  }

  /** As {@link CallLimiter.reserveStart}. */
  reserveStart(): StartReservation {
    return this.#calls.limiter.reserveStart(this.#ref.tenantId)
  }

  /** Starts a workflow in the current trace and returns its id. Starting the same id again changes nothing. */
  async start(start: Start): Promise<string> {
    const id = workflowId(this.#ref, start.subject, start.uuid)
    const trace = currentTrace()
    await callTemporal(this.#calls, this.#ref, () =>
      this.#client.workflow.start(start.type ?? start.definition, {
        workflowId: id,
        taskQueue: start.queue,
        args: withPurpose(`start:${start.definition}`, start.input, trace),
        workflowIdReusePolicy: 'REJECT_DUPLICATE',
        staticSummary: plaintextSummary(start.summary),
        typedSearchAttributes: searchAttributesOf(this.#ref, start.attributes, trace),
        priority: { fairnessKey: this.#ref.tenantId },
        ...(start.timeoutMs !== undefined && { workflowExecutionTimeout: start.timeoutMs }),
        ...(start.delayMs !== undefined && { startDelay: start.delayMs }),
      }),
    )
    return id
  }

  /** Waits for the end of a workflow. @returns true if it ended, with any outcome, within `waitMs`, or does not exist */
  async ended(id: string, waitMs: number): Promise<boolean> {
    const handle = this.#handle(id)
    try {
      await this.#client.withDeadline(Date.now() + waitMs, () => handle.result())
      return true
    } catch (error) {
      return !isGrpcError(error) || isUnknownWork(error)
    }
  }

  /**
   * Waits for the end of a workflow and returns its result.
   * @throws Problem the one that an activity failed with; `run_cut_off` if the workflow was terminated or timed out;
   *   `dependency_unavailable` if it did not end within `waitMs`, or the signal was aborted before
   */
  async result(id: string, waitMs: number, signal?: AbortSignal): Promise<unknown> {
    const handle = this.#handle(id)
    const deadline = Date.now() + waitMs
    const wait = () => this.#client.withDeadline(deadline, () => handle.result())
    // The SDK adds a listener per request, so a signal that many requests share would keep them all.
    const poll = () => (signal === undefined ? wait() : this.#client.withAbortSignal(signal, wait))
    const isPollLost = (error: unknown) => isOverload(error) && Date.now() < deadline
    try {
      return await retryTransient(waitMs, poll, isPollLost, EXHAUSTED_PAUSE_MS)
    } catch (error) {
      if (error instanceof WorkflowFailedError) throw problemOf(error)
      if (!isGrpcError(error)) throw error
      throw new Problem('dependency_unavailable', { detail: 'The run has not ended yet.', cause: error })
    }
  }

  /**
   * Sends a signal.
   * @returns false if the workflow has ended or does not exist
   * @throws Problem `state_conflict` if the workflow has received as many signals as the server allows
   */
  async signal(id: string, signal: { name: string; value: unknown }): Promise<boolean> {
    const args = withPurpose(`signal:${signal.name}`, signal.value)
    const sent = await this.#unlessGone(id, (handle) => handle.signal(signal.name, ...args).then(() => true))
    return sent === true
  }

  /**
   * True if the workflow, which may have ended, has received a signal of this name whose value meets the condition. False if
   * Temporal keeps its history no more.
   */
  async hasReceived(id: string, name: string, isIt: (value: unknown) => boolean): Promise<boolean> {
    const find = ({ workflowId }: WorkflowHandle) =>
      hasReceivedSignal(this.#client, { workflowId, name }, isIt)
    return (await this.#unlessGone(id, find)) === true
  }

  /**
   * Sends an update, again if its workflow task failed: an event came while the workflow was about to end, so the server
   * discarded the task, and the update with it.
   * @param update `id`: the server makes two updates of one id one, and answers the second as it has answered the first
   * @returns the workflow's answer; undefined if it has ended or does not exist
   * @throws Problem `state_conflict` if the workflow has received as many updates as the server allows, `overloaded` if as
   *   many wait for it
   */
  update(id: string, update: { id: string; name: string; value: unknown }): Promise<unknown> {
    const args = withPurpose(`update:${update.name}`, update.value)
    const execute = (handle: WorkflowHandle) => {
      const send = () =>
        handle.executeUpdate(update.name, { args, updateId: update.id }).catch(undefinedIfEnded)
      return retryTransient(CALL_DEADLINE_MS, send, isDiscardedUpdate, DISCARDED_PAUSE_MS)
    }
    return this.#unlessGone(id, execute, WAITS_FOR_WORKER)
  }

  /**
   * The workflow's answer to an update that was sent before; the workflow may have ended since.
   * @returns undefined if its current run has accepted no update with this id
   */
  updateAnswer(id: string, updateId: string): Promise<unknown> {
    const read = (handle: WorkflowHandle) => handle.getUpdateHandle(updateId).result().catch(undefinedIfEnded)
    return this.#unlessGone(id, read, WAITS_FOR_WORKER)
  }

  /** Requests cancellation: the workflow compensates and ends. Does nothing if it has ended. */
  async cancel(id: string): Promise<void> {
    await this.#unlessGone(id, (handle) => handle.cancel())
  }

  /** @returns undefined if the workflow does not exist, or does not exist any more */
  async status(id: string): Promise<WorkflowStatus | undefined> {
    const described = await this.#unlessGone(id, (handle) => handle.describe())
    return described && (STATUSES[described.status.name] ?? 'open')
  }

  get schedules(): Schedules {
    const { schedule } = this.#client
    return new Schedules(this.#ref, (work) => callTemporal(this.#calls, this.#ref, () => work(schedule)))
  }

  /** All work of the reference, also that of the workspaces of a tenant. @param except the workflow that asks */
  ownedWork(except: string): OwnedWork {
    const call = <T>(work: () => Promise<T>) => callTemporal(this.#calls, this.#ref, work)
    return new OwnedWork(this.#ref, this.#client, call, except)
  }

  /** A link to the workflow in the Temporal UI; undefined if none is configured. */
  uiLink(id: string): string | undefined {
    return this.#uiPrefix && `${this.#uiPrefix}${encodeURIComponent(id)}`
  }

  #handle(id: string): WorkflowHandle {
    if (!owns(this.#ref, id)) throw new Problem('not_found')
    return this.#client.workflow.getHandle(id)
  }

  /** @returns undefined if there is no such workflow, or none any more */
  #unlessGone<T>(
    id: string,
    work: (handle: WorkflowHandle) => Promise<T>,
    options?: CallOptions,
  ): Promise<T | undefined> {
    const handle = this.#handle(id)
    const find = () => unlessThrown(WorkflowNotFoundError, work(handle))
    return callTemporal(this.#calls, this.#ref, find, options)
  }
}

interface CallOptions {
  /** True for an error that shows that the server is overloaded. */
  readonly isOverload: (error: unknown) => boolean
}

/** Of a call that waits for a worker: its deadline says nothing of the server. */
const WAITS_FOR_WORKER: CallOptions = { isOverload: isExhausted }

/** Makes a call within the bounds of the process; again, as they allow, if the server has too much to do. */
async function callTemporal<T>(
  { client, limiter }: Calls,
  { tenantId }: { readonly tenantId: string },
  work: () => Promise<T>,
  options: CallOptions = { isOverload },
): Promise<T> {
  const startedMs = performance.now()
  let outcome: 'ok' | 'failed' = 'ok'
  const call = () => client.withDeadline(Date.now() + CALL_DEADLINE_MS, work)
  const send = () => limiter.run({ tenantId, ...options }, call)
  try {
    return await retryTransient(CALL_DEADLINE_MS, send, isExhausted, EXHAUSTED_PAUSE_MS)
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return undefined as T
    outcome = 'failed'
    throw toProblem(error)
  } finally {
    client.calls[outcome] += 1
    client.calls.ms += performance.now() - startedMs
  }
}

/** A workflow that ended while it handled an update counts as ended. */
function undefinedIfEnded(error: unknown): undefined {
  const cause = error instanceof WorkflowUpdateFailedError ? error.cause : undefined
  if (cause instanceof ApplicationFailure && cause.type === 'AcceptedUpdateCompletedWorkflow')
    return undefined
  throw error
}

/** The inverse of how the activity interceptor turns a Problem into a failure. */
function problemOf(error: WorkflowFailedError): Problem {
  for (let cause: unknown = error.cause; cause instanceof Error; cause = cause.cause) {
    if (!(cause instanceof ApplicationFailure) || !isProblemCode(cause.type)) continue
    const members = cause.details?.[1] as Readonly<Record<string, unknown>> | undefined
    return new Problem(cause.type, { detail: cause.message, ...(members && { members }), cause: error })
  }
  const detail =
    error.cause instanceof TimeoutFailure
      ? 'Temporal ended the workflow of the run, which has a time limit: no worker has completed it in time.'
      : 'The workflow was terminated in Temporal.'
  return new Problem('run_cut_off', { detail, cause: error })
}
