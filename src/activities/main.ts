/** The worker process. It runs one worker per task queue, so that slow work of one kind cannot fill the slots of another. */

import { readFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { DefaultLogger, NativeConnection, Runtime, Worker, type WorkerOptions } from '@temporalio/worker'
import { mountMetrics } from '../app/observe.ts'
import { OpsServer } from '../app/ops-server.ts'
import { openPlatform, type Platform } from '../app/platform.ts'
import { QUEUES } from '../core/work.ts'
import { createBackgroundTasks } from '../features/background-tasks.ts'
import { COLLECTION_LIMITS } from '../features/collections/limits.ts'
import { FLOW_LIMITS } from '../features/flows/limits.ts'
import { subscriptionConsumers } from '../features/flows/subscriptions/subscription-consumers.ts'
import { FUNCTION_LIMITS } from '../features/functions/limits.ts'
import { eventTriggerConsumers } from '../features/runs/triggers/event-consumers.ts'
import { ConfigError, parseConfig } from '../infra/config.ts'
import { INFRA_LIMITS } from '../infra/limits.ts'
import { type Log, openLog } from '../infra/log.ts'
import type { Metrics } from '../infra/metrics/metrics.ts'
import { createDelivery, createTaskContexts, createTriggerScopes } from './flow/background-work.ts'
import { awaitCloseOn, recordSink } from './flow/record-sink.ts'
import { HttpRequests } from './http/http-requests.ts'
import { createActivities } from './index.ts'
import { executionSinks } from './run-metrics.ts'
import { sdkFields } from './sdk-log.ts'
import { collectSdkMetrics } from './sdk-metrics.ts'
import { openEagerStartServer } from './sdk-patches/eager-start-server.ts'
import { patchSdk } from './sdk-patches/index.ts'
import { Scopes, tenantInterceptor } from './tenant-interceptor.ts'
import { buildBundle } from './workflow-bundle.ts'

/** For the ends of executions that Temporal has not confirmed when the worker stops. */
const SETTLE_MS = 5_000

/** The path of a build file in the folder of this program (cli/stack/build.ts). */
const buildFile = (name: string) => fileURLToPath(new URL(name, import.meta.url))

async function main(): Promise<void> {
  const config = parseConfig(process.env)
  const log = openLog(config.LOG_LEVEL, 'worker')
  const { platform } = openPlatform(config, log, INFRA_LIMITS.payloads.retryMs)
  installRuntime(platform.metrics, log)
  const ops = new OpsServer(log)
  mountMetrics(ops, platform.metrics)
  await ops.listen(config)
  const connection = await NativeConnection.connect({
    address: config.TEMPORAL_ADDRESS,
    // Payloads are already compressed and encrypted (infra/temporal/payload-codec.ts), so compression would gain nothing.
    grpcCompression: { codec: 'none' },
  })
  const scopes = new Scopes(platform.access)
  const requests = new HttpRequests(scopes, platform.egress)
  const cacheSize = config.TENON_MAX_CACHED_WORKFLOWS
  const shared: Omit<WorkerOptions, 'taskQueue'> = {
    connection,
    namespace: config.TEMPORAL_NAMESPACE,
    activities: createActivities(platform, { scopes, requests }),
    interceptors: { activity: [tenantInterceptor(log)] },
    dataConverter: {
      payloadCodecs: [platform.codec],
      payloadConverterPath: buildFile('payload-converter.mjs'),
      failureConverterPath: buildFile('failure-converter.mjs'),
    },
    shutdownGraceTime: '5s',
    shutdownForceTime: '8s',
    // Other workers take over the workflows of a dead worker after this time; the SDK's default is 10 s.
    stickyQueueScheduleToStartTimeout: '3s',
    // By default the SDK sends at most one heartbeat per 0.8 of the timeout, so that a short stall counts as a lost worker.
    maxHeartbeatThrottleInterval: '3s',
    ...(cacheSize !== undefined && { maxCachedWorkflows: cacheSize }),
    // Without a cache the SDK holds one workflow at a time. A task of another workflow would evict it even while its local
    // activities run, and its own task would then be lost until it times out.
    ...(cacheSize === 0 && { maxConcurrentWorkflowTaskExecutions: 1 }),
  }
  const records = recordSink(platform.access, log, awaitCloseOn(connection, config.TEMPORAL_NAMESPACE))
  patchSdk(config, log)
  const path = config.TENON_WORKFLOW_BUNDLE
  const workflowBundle = { code: path === undefined ? await buildBundle() : await readFile(path, 'utf8') }
  const workers = await Promise.all([
    Worker.create({
      ...shared,
      workflowBundle,
      sinks: executionSinks(platform.metrics, records.write),
      taskQueue: QUEUES.flows,
      maxConcurrentLocalActivityExecutions: FLOW_LIMITS.localCallsAtOnceMax,
    }),
    Worker.create({ ...shared, workflowBundle, taskQueue: QUEUES.provisioning }),
    Worker.create({ ...shared, taskQueue: QUEUES.calls }),
    Worker.create({
      ...shared,
      taskQueue: QUEUES.functions,
      maxConcurrentActivityTaskExecutions:
        availableParallelism() * FUNCTION_LIMITS.slotsPerCore * FUNCTION_LIMITS.activitiesPerSlot,
    }),
    Worker.create({
      ...shared,
      taskQueue: QUEUES.indexes,
      maxConcurrentActivityTaskExecutions: COLLECTION_LIMITS.indexBuildsMax,
    }),
  ])
  const socket = config.TENON_EAGER_START_SOCKET
  const at = { connection, namespace: config.TEMPORAL_NAMESPACE }
  const eagerStarts = socket && (await openEagerStartServer(socket, at))
  const end = async () => {
    if (eagerStarts) await eagerStarts.close()
    for (const worker of workers) worker.shutdown()
  }
  const stop = () => void end()
  process.once('SIGTERM', stop)
  process.once('SIGINT', stop)
  void platform.functions.warmUp()
  void platform.functions.layers().then((layers) => log.info(layers ?? {}, 'function isolation detected'))
  startBackgroundWork(platform, log)
  log.info({ queues: Object.values(QUEUES) }, 'worker ready')
  await Promise.all(workers.map((worker) => worker.run()))
  // The reconciler confirms the ends that are not settled soon.
  await Promise.race([records.settled(), delay(SETTLE_MS, undefined, { ref: false })])
  await connection.close()
  ops.close()
  await platform.close()
}

/** Configures the part of the SDK that all workers of the process share. */
function installRuntime(metrics: Metrics, log: Log): void {
  const telemetryOptions = collectSdkMetrics(metrics)
  Runtime.install({
    shutdownSignals: [],
    logger: new DefaultLogger('WARN', (entry) => log.warn(sdkFields(entry), entry.message)),
    ...(telemetryOptions !== undefined && { telemetryOptions }),
  })
}

/** Work of all workers together; each task runs on one of them. */
function startBackgroundWork(platform: Platform, log: Log): void {
  const { access, triggers } = platform
  platform.relay.start()
  platform.taskRunner.start(createBackgroundTasks(platform.mailer), createTaskContexts(access))
  platform.streamConsumers.start([
    eventTriggerConsumers({ starter: triggers, openScope: createTriggerScopes(access), log }),
    subscriptionConsumers(createDelivery(access)),
  ])
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    process.stderr.write(`${error instanceof ConfigError ? error.message : (error as Error).stack}\n`)
    process.exit(1)
  },
)
