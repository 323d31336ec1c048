/** Validates objects against the strict JSON Schemas of Kubernetes' API, which a Python wheel has, fetched once per user. */

import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { cacheDir, execute } from '../../../stack/binaries.mjs'
import { withLock } from '../../../stack/lock.mjs'
import type { KubeObject } from './helm.ts'

const WHEEL = {
  version: '1.37.0',
  sha256: '85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9',
} as const

/** The oldest version that Chart.yaml allows, and the newest one that the wheel has. */
export const KUBERNETES = ['v1.31.0', 'v1.37.0'] as const

const EXTRACT = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as z:
    for version in sys.argv[3:]:
        name = f'kubernetes_validate/kubernetes-json-schema/{version}-local-strict/_definitions.json'
        open(f'{sys.argv[2]}/{version}.json', 'wb').write(z.read(name))
`

interface Definition {
  readonly 'x-kubernetes-group-version-kind'?: readonly {
    readonly group: string
    readonly version: string
    readonly kind: string
  }[]
}

export class ApiSchemas {
  readonly #ajv: Ajv2020
  readonly #id: string
  readonly #definitions: Readonly<Record<string, Definition>>

  private constructor(document: { $id: string; $defs: Readonly<Record<string, Definition>> }) {
    this.#ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true, addUsedSchema: false })
    this.#ajv.addSchema(document)
    this.#id = document.$id
    this.#definitions = document.$defs
  }

  /** @param version one of {@link KUBERNETES} */
  static async load(version: (typeof KUBERNETES)[number]): Promise<ApiSchemas> {
    const folder = await fetchSchemas()
    return new ApiSchemas(JSON.parse(await readFile(join(folder, `${version}.json`), 'utf8')))
  }

  /** What the API server would refuse; it would also refuse a member that it does not know. */
  faultsOf(object: KubeObject): string[] {
    const validate = this.#validatorOf(object)
    if (validate === undefined) return [`${object.kind}: ${object.apiVersion} has no such kind`]
    const isValid: boolean = validate(object)
    if (isValid) return []
    return (validate.errors ?? []).map(
      ({ instancePath, message, params }) =>
        `${object.kind} ${object.metadata.name}${instancePath} ${message} ${JSON.stringify(params)}`,
    )
  }

  #validatorOf({ apiVersion, kind }: KubeObject): ValidateFunction | undefined {
    const [version = '', group = ''] = apiVersion.split('/').reverse()
    const [name] =
      Object.entries(this.#definitions).find(([, { 'x-kubernetes-group-version-kind': kinds = [] }]) =>
        kinds.some((one) => one.group === group && one.version === version && one.kind === kind),
      ) ?? []
    return name === undefined ? undefined : this.#ajv.getSchema(`${this.#id}#/$defs/${name}`)
  }
}

/** @returns a folder with one file for each version */
async function fetchSchemas(): Promise<string> {
  const folder = join(cacheDir(), `kubernetes-schemas-${WHEEL.version}`)
  const isThere = async () => (await readdir(folder).catch(() => [])).length === KUBERNETES.length
  if (await isThere()) return folder
  await withLock(`${folder}.lock`, async () => {
    if (await isThere()) return
    const draft = `${folder}.fetch`
    await rm(draft, { recursive: true, force: true })
    await mkdir(join(draft, 'schemas'), { recursive: true })
    const wanted = `kubernetes-validate==${WHEEL.version}`
    await execute('python3', ['-m', 'pip', 'download', '--quiet', '--no-deps', '--dest', draft, wanted])
    const name = (await readdir(draft)).find((file) => file.endsWith('.whl')) ?? ''
    const wheel = join(draft, name)
    const digest = createHash('sha256')
      .update(await readFile(wheel))
      .digest('hex')
    if (digest !== WHEEL.sha256) throw new Error(`The digest of ${name} is not the pinned one.`)
    await execute('python3', ['-c', EXTRACT, wheel, join(draft, 'schemas'), ...KUBERNETES])
    await rm(folder, { recursive: true, force: true })
    await rename(join(draft, 'schemas'), folder)
    await rm(draft, { recursive: true, force: true })
  })
  return folder
}
