/** The worker process. It runs one worker per task queue, so that slow work of one kind cannot fill the slots of another. */

import { readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import {
  DefaultLogger,
  NativeConnection,
  type NativeConnectionOptions,
  Runtime,
  type WorkerOptions,
} from '@temporalio/worker'
import { openOpsServer } from '../app/ops-server.ts'
import { DOES_WORK, openPlatform, type Platform } from '../app/platform.ts'
import { exitWithError, logAllOutput } from '../app/process-output.ts'
import { checkWorker } from '../app/start-checks/at-start.ts'
import { QUEUES } from '../core/work.ts'
import { createBackgroundTasks } from '../features/background-tasks.ts'
import { subscriptionConsumers } from '../features/flows/subscriptions/subscription-consumers.ts'
import { eventTriggerConsumers } from '../features/runs/triggers/event-consumers.ts'
import { type Config, ConfigError, parseConfig } from '../infra/config.ts'
import { withMasterKeys } from '../infra/crypto/key-provider.ts'
import { type Log, openLog } from '../infra/log.ts'
import type { Metrics } from '../infra/metrics/metrics.ts'
import { startTracing, stopTracing } from '../infra/tracing.ts'
import { keepApiKey } from './api-key.ts'
import {
  createDelivery,
  createTaskContexts,
  createTenantScopes,
  createTriggerScopes,
} from './flow/background-work.ts'
import { awaitCloseOn, recordSink } from './flow/record-sink.ts'
import { HttpRequests } from './http/http-requests.ts'
import { createActivities } from './index.ts'
import { executionSinks } from './run-metrics.ts'
import { sdkFields } from './sdk-log.ts'
import { collectSdkMetrics } from './sdk-metrics.ts'
import { openEagerStartServer } from './sdk-patches/eager-start-server.ts'
import { patchSdk } from './sdk-patches/index.ts'
import { Scopes, tenantInterceptor } from './tenant-interceptor.ts'
import { WorkLog } from './work-log.ts'
import { checkPollers, createWorkers, IDENTITY, type QueueWorker } from './workers.ts'
import { buildBundle } from './workflow-bundle.ts'

/** For the ends of executions that Temporal has not confirmed when the worker stops. */
const SETTLE_MS = 5_000
/** Seconds in which cancelled steps end. */
const FORCE_S = 3
/** Polls of a worker last up to a minute. */
const POLLERS_MS = 10_000

/** The path of a build file in the folder of this program (cli/stack/build.ts). */
const buildFile = (name: string) => fileURLToPath(new URL(name, import.meta.url))

async function main(): Promise<void> {
  const config = parseConfig(await withMasterKeys(process.env))
  const log = openLog(config.LOG_LEVEL, 'worker')
  logAllOutput(log)
  await startTracing(config.OTEL_EXPORTER_OTLP_ENDPOINT, 'tenon-worker', log)
  const work = new WorkLog(log)
  const { platform } = openPlatform(config, log, DOES_WORK)
  installRuntime(platform.metrics, log)
  const { health } = platform
  const stopping = new AbortController()
  const stop = () => {
    health.drain()
    stopping.abort()
  }
  process.once('SIGTERM', stop)
  process.once('SIGINT', stop)
  let workers: readonly QueueWorker[] | undefined
  const idleQueues = () => platform.idleQueues(IDENTITY)
  health.add({
    ...{ name: 'pollers', required: true, freshMs: POLLERS_MS },
    ping: () => checkPollers(workers, idleQueues),
  })
  health.start()
  const ops = await openOpsServer(platform, config.TENON_OPS_LISTEN)
  const connection = await checkWorker(platform.startChecks, platform.installation, {
    ...{ log, signal: stopping.signal, connect: () => connect(config, log) },
  })
  if (connection !== undefined) {
    const awaitClose = awaitCloseOn(connection, config.TEMPORAL.namespace)
    const records = recordSink(platform.access, { log, work }, awaitClose)
    patchSdk(config, log)
    const path = config.TENON_WORKFLOW_BUNDLE
    const workflowBundle = { code: path === undefined ? await buildBundle() : await readFile(path, 'utf8') }
    const shared = optionsOf(config, { platform, log, work, connection })
    workers = await createWorkers(shared, {
      workflowBundle,
      sinks: executionSinks(platform.metrics, records.write),
    })
    await run(workers, { platform, log, connection, signal: stopping.signal })
    // The reconciler confirms the ends that are not settled soon.
    await Promise.race([records.settled(), delay(SETTLE_MS, undefined, { ref: false })])
    await connection.close()
  }
  await platform.close()
  await stopTracing()
  ops?.close()
}

/** Configures what all workers share: lines of the SDK and of its core go into the log, which they would write to the console. */
function installRuntime(metrics: Metrics, log: Log): void {
  const logging = { forward: {}, filter: { core: 'WARN', other: 'ERROR' } } as const
  Runtime.install({
    shutdownSignals: [],
    logger: new DefaultLogger('WARN', (entry) => log.warn(sdkFields(entry), entry.message)),
    telemetryOptions: { logging, ...collectSdkMetrics(metrics) },
  })
}

/** Payloads are already compressed and encrypted (infra/temporal/payload-codec.ts), so compression would gain nothing. */
async function connect(
  { TEMPORAL: { connection: options, apiKey } }: Config,
  log: Log,
): Promise<NativeConnection> {
  const key = apiKey?.()
  const connection = await NativeConnection.connect({
    ...(options as NativeConnectionOptions),
    ...(key !== undefined && { apiKey: key }),
    grpcCompression: { codec: 'none' },
  })
  if (apiKey !== undefined) keepApiKey(connection, apiKey, log)
  return connection
}

interface WorkerServices {
  readonly platform: Platform
  readonly log: Log
  readonly connection: NativeConnection
}

/** The options of all workers. */
function optionsOf(
  config: Config,
  { platform, log, work, connection }: WorkerServices & { readonly work: WorkLog },
): Omit<WorkerOptions, 'taskQueue'> {
  const scopes = new Scopes(platform.access)
  const requests = new HttpRequests(scopes, platform.egress)
  const cacheSize = config.TENON_MAX_CACHED_WORKFLOWS
  return {
    connection,
    namespace: config.TEMPORAL.namespace,
    activities: createActivities(platform, { scopes, requests }),
    interceptors: { activity: [tenantInterceptor(log, work)] },
    dataConverter: {
      payloadCodecs: [platform.codec],
      payloadConverterPath: buildFile('payload-converter.mjs'),
      failureConverterPath: buildFile('failure-converter.mjs'),
    },
    // Steps end by themselves until then; after that they are cancelled, and at last given up.
    shutdownGraceTime: `${config.TENON_DRAIN_LIMIT} s`,
    shutdownForceTime: `${config.TENON_DRAIN_LIMIT + FORCE_S} s`,
    // Other workers take over the workflows of a dead worker after this time; the SDK's default is 10 s.
    stickyQueueScheduleToStartTimeout: '3s',
    // By default the SDK sends at most one heartbeat per 0.8 of the timeout, so that a short stall counts as a lost worker.
    maxHeartbeatThrottleInterval: '3s',
    ...versionOf(config),
    ...(cacheSize !== undefined && { maxCachedWorkflows: cacheSize }),
    // Without a cache the SDK holds one workflow at a time. A task of another workflow would evict it even while its local
    // activities run, and its own task would then be lost until it times out.
    ...(cacheSize === 0 && { maxConcurrentWorkflowTaskExecutions: 1 }),
  }
}

/**
 * The version of this build. Executions go on at the current version with their next task: they may wait for months, and each build
 * replays what released ones have recorded, so no old worker has to be kept for them.
 */
function versionOf(config: Config): Pick<WorkerOptions, 'workerDeploymentOptions'> {
  const { TEMPORAL_DEPLOYMENT_NAME: deploymentName, TEMPORAL_WORKER_BUILD_ID: buildId } = config
  if (deploymentName === undefined) return {}
  if (buildId === undefined)
    throw new ConfigError([
      'TEMPORAL_WORKER_BUILD_ID is missing: a worker needs it if TEMPORAL_DEPLOYMENT_NAME is set.',
    ])
  return {
    workerDeploymentOptions: {
      useWorkerVersioning: true,
      version: { deploymentName, buildId },
      defaultVersioningBehavior: 'AUTO_UPGRADE',
    },
  }
}

/** Runs the workers until the process is to end, and their steps have ended. */
async function run(
  workers: readonly QueueWorker[],
  { platform, log, connection, signal }: WorkerServices & { readonly signal: AbortSignal },
): Promise<void> {
  const { TENON_EAGER_START_SOCKET: socket, TEMPORAL } = platform.config
  const { namespace } = TEMPORAL
  // A worker that starts an execution itself gets its first task, whatever the current version is.
  const isVersioned = platform.config.TEMPORAL_DEPLOYMENT_NAME !== undefined
  const eagerStarts =
    socket && !isVersioned && (await openEagerStartServer(socket, { connection, namespace }))
  const running = Promise.all(workers.map(({ worker }) => worker.run()))
  void platform.functions.warmUp()
  startBackgroundWork(platform, log)
  log.info({ queues: Object.values(QUEUES) }, 'worker ready')
  await Promise.race([running, aborted(signal)])
  if (eagerStarts) await eagerStarts.close()
  for (const { worker } of workers) if (worker.getState() === 'RUNNING') worker.shutdown()
  await running
}

const aborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (signal.aborted) resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })

/** Work of all workers together; each task runs on one of them. */
function startBackgroundWork(platform: Platform, log: Log): void {
  const { access, triggers } = platform
  platform.relay.start()
  platform.taskRunner.start(
    createBackgroundTasks(platform, createTenantScopes(access)),
    createTaskContexts(access),
  )
  platform.streamConsumers.start([
    eventTriggerConsumers({ starter: triggers, openScope: createTriggerScopes(access), log }),
    subscriptionConsumers(createDelivery(access)),
  ])
}

main().then(
  () => process.exit(0),
  (error: unknown) => exitWithError('worker', error),
)
