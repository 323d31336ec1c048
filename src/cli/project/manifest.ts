/** `tenon.yaml`: the targets of a project, the names of its secrets, and the file of its types. */

import { sentences } from '../../core/text/sentences.ts'
import type { ProjectFolder } from './folder.ts'
import { valueIn } from './yaml-text.ts'

export const MANIFEST = 'tenon.yaml'

/** A workspace that the project can be applied to. */
export interface Target {
  /** The address of the installation; default: that of TENON_URL. */
  readonly url?: string
  /** Id of the workspace, or its slug. */
  readonly workspace: string
  /** Settings of this workspace in place of those of settings.yaml. */
  readonly settings?: Readonly<Record<string, unknown>>
}

export interface Manifest {
  readonly targets: Readonly<Record<string, Target>>
  readonly secrets?: readonly string[]
  /** File of the types that `tenon types` writes. */
  readonly types?: string
}

const MEMBERS = ['targets', 'secrets', 'types']
const TARGET_MEMBERS = ['url', 'workspace', 'settings']

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** @throws Error if the folder has no project, or a member is not known */
export async function readManifest(folder: ProjectFolder): Promise<Manifest> {
  const text = await folder.read(MANIFEST)
  if (text === undefined)
    throw new Error(`There is no ${MANIFEST} in ${folder.root}. Make a project with \`tenon project init\`.`)
  const value = valueIn(text, MANIFEST)
  if (!isObject(value)) throw fault('has no members')
  requireMembers(value, MEMBERS, '')
  const { targets, secrets = [], types } = value
  if (!isObject(targets) || Object.keys(targets).length === 0)
    throw fault('has no targets: each has the id or slug of a workspace')
  for (const [name, target] of Object.entries(targets)) checkTarget(name, target)
  if (!Array.isArray(secrets) || secrets.some((name) => typeof name !== 'string'))
    throw fault('secrets: write a list of names. Their values come from the environment')
  if (types !== undefined && !isFileName(types))
    throw fault('types: write the name of a file in the folder of the project, such as tenon-types.ts')
  return value as unknown as Manifest
}

const isFileName = (value: unknown): boolean => typeof value === 'string' && /^[\w-][\w.-]*\.ts$/.test(value)

function checkTarget(name: string, target: unknown): void {
  const where = `targets.${name}`
  if (!isObject(target) || typeof target['workspace'] !== 'string' || target['workspace'] === '')
    throw fault(`${where}.workspace: write the id or slug of a workspace`)
  requireMembers(target, TARGET_MEMBERS, `${where}.`)
  const { url, settings } = target
  if (url !== undefined && !(typeof url === 'string' && URL.canParse(url)))
    throw fault(`${where}.url: write an address such as https://api.example.com`)
  if (settings !== undefined && !isObject(settings)) throw fault(`${where}.settings: write an object`)
}

function requireMembers(value: object, known: readonly string[], prefix: string): void {
  const unknown = Object.keys(value).find((name) => !known.includes(name))
  if (unknown !== undefined)
    throw fault(`${prefix}${unknown} is not known. The members are ${known.join(', ')}`)
}

const fault = (text: string): Error => new Error(`${MANIFEST}: ${text}.`)

/**
 * The target of a command: the named one, the only one, or `development`.
 * @throws Error if it is not clear which is meant
 */
export function targetOf({ targets }: Manifest, named: string | undefined): readonly [string, Target] {
  const names = Object.keys(targets)
  const name = named ?? (names.length === 1 ? names[0] : 'development')
  const target = name === undefined ? undefined : Object.entries(targets).find(([one]) => one === name)
  if (target !== undefined) return target
  const known = `The targets of ${MANIFEST} are ${names.join(', ')}.`
  throw new Error(
    sentences(named === undefined ? 'Name a target with --target.' : `There is no target ${named}.`, known),
  )
}
