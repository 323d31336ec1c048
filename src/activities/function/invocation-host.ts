/** Serves one invocation: calls of the platform with the rights of the code, requests to other servers, and lines of its log. */

import { type AuditCaller, recordFailure, runAudited, targetOf } from '../../access/audit/audited-run.ts'
import type { AuditEvent } from '../../access/audit/entry.ts'
import { permitActor } from '../../access/permission.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { originOf, sendHttp } from '../../access/scope-services.ts'
import { Suspended } from '../../access/tenant-states.ts'
import { type ByteReply, type ByteSource, isByteSource } from '../../core/bytes.ts'
import type { AnyOperation } from '../../core/operation.ts'
import { Problem } from '../../core/problem.ts'
import type { FunctionRunInput, Json } from '../../core/work.ts'
import { FunctionEgress } from '../../features/functions/egress.ts'
import { FUNCTION_LIMITS } from '../../features/functions/limits.ts'
import type { RuntimeConfig } from '../../features/functions/runtime-config.ts'
import {
  Content,
  type GuestRequest,
  type GuestResponse,
  type HttpExchange,
  type InvocationHost,
  type LogLine,
} from '../../features/functions/sandbox/invocation.ts'
import { currentCaller } from '../../features/runs/caller.ts'
import { egressAllowed, egressAllowedNow } from '../../features/tenants/workspace-settings.ts'
import { currentTrace, inTrace } from '../../infra/trace-context.ts'
import type { ActivityContext } from '../tenant-interceptor.ts'
import { callCounter } from './call-counter.ts'
import { actorOfCode, type CodeActor, noRights } from './code-caller.ts'
import { guardedFetch } from './guarded-fetch.ts'
import { findMethod, type PlatformMethod, wrongArguments } from './platform-methods.ts'
import type { RunLog } from './run-log.ts'
import type { SecretMask } from './secret-mask.ts'

export interface HostServices {
  readonly call: Pick<ActivityContext, 'workflowId' | 'chainDepth'>
  /** The workspace in any state, in the role of an admin. */
  readonly record: WorkspaceScope
  /** Opens the workspace for an actor. @throws Suspended */
  readonly openActorScope: (actor: CodeActor) => Promise<WorkspaceScope>
  /** Checks that the workspace is active. @throws Suspended */
  readonly active: () => Promise<unknown>
  readonly mask: SecretMask
  readonly log: Pick<RunLog, 'add'>
  /** Ends the invocation, with this reason. */
  readonly stop: (reason: Suspended) => void
  /** Aborts when the invocation is to end. */
  readonly signal: AbortSignal
  /** Waits for other runs, which may use the slot of this one meanwhile. */
  readonly yieldWhile: <T>(work: () => Promise<T>) => Promise<T>
  /** The connection of the client whose request the code serves. */
  readonly http?: HttpExchange | undefined
}

export class PlatformHost implements InvocationHost {
  readonly http?: HttpExchange
  readonly #services: HostServices
  readonly #run: FunctionRunInput
  readonly #actor: CodeActor | undefined
  #current: Promise<CodeActor | undefined> | undefined
  readonly #egress: FunctionEgress
  readonly #reads = new ReadTally()
  readonly #ended = new AbortController()
  /** Aborts when the invocation is to end, or has ended. */
  readonly #signal: AbortSignal
  readonly #declaresScopes: boolean
  readonly #untilMs: number
  readonly #countCall = callCounter()
  /** The trace of this run: calls of the code arrive in the context of its process, which serves many runs. */
  readonly #trace = currentTrace()

  constructor(
    services: HostServices,
    run: FunctionRunInput,
    config: Pick<RuntimeConfig, 'egress' | 'scopes'>,
  ) {
    this.#services = services
    if (services.http !== undefined) this.http = services.http
    this.#run = run
    this.#actor = actorOfCode(services.call, run, config.scopes)
    this.#declaresScopes = config.scopes.length > 0
    this.#egress = new FunctionEgress(config.egress)
    this.#signal = AbortSignal.any([services.signal, this.#ended.signal])
    // The time of the code itself, and some to wait for a process.
    this.#untilMs = performance.now() + run.timeout_ms + FUNCTION_LIMITS.queueMs
  }

  /** Ends what the code has begun, and records its reads. */
  close(): void {
    this.#ended.abort()
    this.#reads.flush()
  }

  call(name: string, given: readonly (Json | ByteSource)[]): Promise<Json | Content> {
    return inTrace(this.#trace, () => this.#call(name, given))
  }

  fetch(request: GuestRequest): Promise<GuestResponse> {
    return inTrace(this.#trace, () => this.#fetch(request))
  }

  async #call(name: string, given: readonly (Json | ByteSource)[]): Promise<Json | Content> {
    this.#count()
    const method = findMethod(name)
    const args = method.argumentsOf(given)
    const actor = await this.#currentActor()
    if (actor === undefined) throw noRights(this.#run)
    const scope = await this.#whileActive(this.#services.openActorScope(actor))
    const work = () => this.#untilEnded(this.#perform(method, scope, args))
    return method.waitsForRuns ? this.#services.yieldWhile(work) : work()
  }

  async #fetch(request: GuestRequest): Promise<GuestResponse> {
    this.#count()
    const { record, active, call, yieldWhile } = this.#services
    await this.#whileActive(active())
    const origin = originOf(record)
    const route = {
      egress: this.#egress,
      allowed: () => egressAllowed(record),
      allowedNow: () => egressAllowedNow(record),
      chainDepth: call.chainDepth,
      send: (...to: Rest<Parameters<typeof sendHttp>>) => {
        const send = () => sendHttp(record, ...to)
        // The platform may start a run for it, which needs a slot, too.
        return to[0].url.origin === origin ? yieldWhile(send) : send()
      },
    }
    const timeoutMs = Math.max(1, this.#untilMs - performance.now())
    return guardedFetch(request, route, { timeoutMs, signal: this.#signal })
  }

  log(line: LogLine): void {
    const { log, mask } = this.#services
    log.add({ ...line, text: mask.line(line.text) })
  }

  /** Read once for an attempt. @throws Problem `forbidden` if the caller, as whom the code acts, has lost its rights */
  #currentActor(): Promise<CodeActor | undefined> {
    this.#current ??= this.#readActor().catch((error: unknown) => {
      this.#current = undefined
      throw error
    })
    return this.#current
  }

  /** An asynchronous run may begin or be repeated long after its caller was authenticated. */
  async #readActor(): Promise<CodeActor | undefined> {
    if (!this.#run.is_async || this.#declaresScopes || this.#actor === undefined) return this.#actor
    const { caller, lost } = await currentCaller(this.#services.record, this.#run)
    if (lost !== undefined)
      throw new Problem('forbidden', { detail: `The run no longer has rights: ${lost}.` })
    return actorOfCode(this.#services.call, { ...this.#run, caller }, [])
  }

  #count(): void {
    this.#signal.throwIfAborted()
    this.#countCall()
  }

  /** A suspension ends the run at once. */
  async #whileActive<T>(opening: Promise<T>): Promise<T> {
    return opening.catch((error: unknown) => {
      if (error instanceof Suspended) this.#services.stop(error)
      throw error
    })
  }

  /** Rejects when the invocation ends. An operation that has begun goes on: it may have had effects. */
  #untilEnded<T>(work: Promise<T>): Promise<T> {
    const signal = this.#signal
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    const end = () => reject(signal.reason)
    signal.addEventListener('abort', end)
    if (signal.aborted) end()
    work.then(resolve, reject)
    return promise.finally(() => signal.removeEventListener('abort', end))
  }

  async #perform(
    { operation, signature }: PlatformMethod,
    scope: WorkspaceScope,
    args: Record<string, unknown>,
  ): Promise<Json | Content> {
    const by = this.#auditCaller(args)
    let reply: ByteReply | undefined
    const checked: AnyOperation = {
      ...operation,
      run: async (within: WorkspaceScope, input: unknown) => {
        permitActor(operation, within.actor, input)
        const output: unknown = await operation.run(within, input)
        if (operation.http.reply !== 'bytes') return output
        reply = output as ByteReply
        // The code reads the bytes.
        return { status: reply.status, headers: reply.headers }
      },
    }
    try {
      const output = await runAudited(checked, scope, args, by)
      if (operation.reads) this.#reads.add(operation, scope, args, by)
      if (reply === undefined) return output as Json
      if (this.#signal.aborted) reply.discard?.()
      return new Content(reply)
    } catch (error) {
      if (operation.reads) this.#reads.add(operation, scope, args, by, error)
      throw this.#forCode(error, signature)
    }
  }

  /** The run is the actor; the caller that started it is in the details. */
  #auditCaller(args: Record<string, unknown>): AuditCaller {
    const { caller } = this.#run
    const requestId = this.#trace?.requestId ?? null
    const named = Object.entries(args).filter(([, value]) => !isByteSource(value))
    const redactedArgs = this.#services.mask.shown(Object.fromEntries(named))
    return { kind: 'run', requestId, redactedArgs, detail: { on_behalf_of: caller.subject } }
  }

  /** Errors of the code's own arguments name the method, those of declared scopes what declares them. */
  #forCode(error: unknown, signature: string): unknown {
    if (!(error instanceof Problem)) return error
    if (error.code === 'validation_failed') return wrongArguments(signature, error.message)
    if (error.code !== 'insufficient_scope' || !this.#declaresScopes) return error
    const { scope } = error.members
    const declared = [...(this.#actor?.scopes ?? [])].join(', ')
    return new Problem('insufficient_scope', {
      detail: `This needs the scope ${scope}. The function declares ${declared}: add it to \`scopes\` in the configuration of the function.`,
      members: error.members,
    })
  }
}

type Rest<T extends readonly unknown[]> = T extends readonly [unknown, ...infer Others] ? Others : never

type Alike = Omit<AuditEvent, 'count'>

export class ReadTally {
  readonly #alike = new Map<
    string,
    { readonly event: Alike; readonly scope: WorkspaceScope; count: number }
  >()

  /** Counts a read, or records it at once if it was refused or has failed. */
  add(
    operation: AnyOperation,
    scope: WorkspaceScope,
    args: Readonly<Record<string, unknown>>,
    { kind, requestId, redactedArgs = args, detail }: AuditCaller,
    error?: unknown,
  ): void {
    const event = {
      requestId,
      owner: scope.ref,
      actor: { ...scope.actor, kind },
      operation: operation.name,
      // Of a collection or a bucket, without what is in it.
      target: targetOf(operation, { name: redactedArgs['name'], bucket: redactedArgs['bucket'] }),
      before: null,
      ...(detail !== undefined && { detail }),
    }
    if (error !== undefined) {
      recordFailure(scope.audit, event, error)
      return
    }
    const { name } = operation
    const key = `${name} ${event.target}`
    const known = this.#alike.get(key)
    if (known !== undefined) known.count += 1
    else {
      const done = { ...event, outcome: 'done', status: null, code: null, after: null } as const
      this.#alike.set(key, { event: done, scope, count: 1 })
    }
  }

  /** Queues the entries. */
  flush(): void {
    for (const { event, scope, count } of this.#alike.values()) scope.audit.enqueue({ ...event, count })
    this.#alike.clear()
  }
}
