/** Provides Helm, built once per user from its Go module, and renders the chart with it. */

import { access, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { cacheDir, execute } from '../../../stack/binaries.mjs'
import { withLock } from '../../../stack/lock.mjs'

/** The checksum database of Go verifies what it is built from. */
const VERSION = 'v3.22.0'
/** Helm asks no cluster, and would assume the version that it was built for. */
const KUBE_VERSION = 'v1.37.0'
const BUILD_MS = 1_800_000

export const CHART = 'deploy/helm/tenon'
export const VALUE_SETS = ['external', 'evaluation'] as const
export type ValueSet = (typeof VALUE_SETS)[number]

/** An object of Kubernetes, as far as all kinds have the members. */
export interface KubeObject {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: {
    readonly name: string
    readonly labels: Readonly<Record<string, string>>
    readonly annotations?: Readonly<Record<string, string>>
  }
  /** Differs by kind; api-schemas.ts checks it. */
  readonly spec?: unknown
}

/** @returns the path of Helm @throws Error with the reason why there is none */
async function findHelm(): Promise<string> {
  const path = join(cacheDir(), `helm-${VERSION}`)
  const isThere = () =>
    access(path).then(
      () => true,
      () => false,
    )
  if (await isThere()) return path
  await withLock(`${path}.lock`, async () => {
    if (await isThere()) return
    const draft = `${path}.build`
    await mkdir(draft, { recursive: true })
    const env = { ...process.env, GOBIN: draft, CGO_ENABLED: '0' }
    const target = `helm.sh/helm/v3/cmd/helm@${VERSION}`
    await execute('go', ['install', target], { env, timeoutMs: BUILD_MS }).catch((error: Error) => {
      throw new Error(
        `Helm cannot be built with Go: ${error.message}. Install Go, or run this with a network.`,
      )
    })
    await rename(join(draft, 'helm'), path)
    await rm(draft, { recursive: true, force: true })
  })
  return path
}

/** Runs Helm with a set of values, if any, and further values on top of it. */
async function runHelm(
  command: readonly string[],
  set: ValueSet | undefined,
  values: object,
): Promise<string> {
  const helm = await findHelm()
  const dir = await mkdtemp(join(tmpdir(), 'tenon-chart-'))
  try {
    const file = join(dir, 'values.json')
    await writeFile(file, JSON.stringify(values))
    const files = set === undefined ? [file] : [`${CHART}/values-${set}.yaml`, file]
    // Helm reads and writes its settings below the home folder.
    const env = { ...process.env, HELM_CONFIG_HOME: dir, HELM_CACHE_HOME: dir, HELM_DATA_HOME: dir }
    return await execute(
      helm,
      [...command, '--kube-version', KUBE_VERSION, ...files.flatMap((path) => ['--values', path])],
      { env },
    )
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

/** @throws Error if the chart has a fault */
export const lint = (set: ValueSet): Promise<string> => runHelm(['lint', '--strict', CHART], set, {})

/** @returns the objects of a release named `tenon` @throws Error with what Helm says of the values */
export async function render(set: ValueSet | undefined, values: object = {}): Promise<KubeObject[]> {
  const text = await runHelm(['template', 'tenon', CHART], set, values)
  const documents = parseAllDocuments(text)
  return documents.flatMap((document) => {
    if ('errors' in document && document.errors.length > 0) throw document.errors[0]
    const object = document.toJS() as KubeObject | null
    return object === null ? [] : [object]
  })
}
