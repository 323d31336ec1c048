/** The names of secrets in `tenon.yaml`: one that the workspace lacks is set from `TENON_SECRET_<NAME>`, and no file has its value. */

import { MANIFEST } from '../manifest.ts'
import { allPages, type Place } from '../place.ts'
import { withValue } from '../yaml-text.ts'
import { type Kind, type KindPlan, Overtaken, type Pulled, type Step } from './kind.ts'

const KIND = 'secrets'

/** `TENON_SECRET_PAYMENT_KEY` for `payment_key`. */
const variableOf = (name: string): string =>
  `TENON_SECRET_${name.toUpperCase().replaceAll(/[^A-Z0-9_]/g, '_')}`

async function readNames({ client, workspace }: Place): Promise<Set<string>> {
  const list = await allPages((page) => client.flowSecrets.list({ ...page, ws: workspace.id }))
  return new Set(list.map(({ name }) => name))
}

async function plan(place: Place): Promise<KindPlan> {
  const { secrets = [] } = place.manifest
  const known = secrets.length === 0 ? new Set<string>() : await readNames(place)
  const missing = secrets.filter((name) => !known.has(name))
  return {
    steps: missing.map((name) => stepOf(place, name)),
    extras: [],
    same: secrets.length - missing.length,
  }
}

function stepOf(place: Place, name: string): Step {
  const { client, workspace } = place
  const variable = variableOf(name)
  const value = process.env[variable]
  const detail = value ? `set from ${variable}` : `missing: set ${variable} for this command`
  return {
    changes: [
      { kind: KIND, name, action: 'create', differences: [{ detail, ...(!value && { isBlocked: true }) }] },
    ],
    run: async () => {
      if ((await readNames(place)).has(name)) throw new Overtaken(`The secret ${name}`)
      await client.flowSecrets.set({ ws: workspace.id, name, value })
      return [{ kind: KIND, name, id: name, isNew: true, warnings: [] }]
    },
  }
}

async function pull(place: Place): Promise<Pulled> {
  const { folder, manifest } = place
  const names = [...new Set([...(manifest.secrets ?? []), ...(await readNames(place))])]
  if (names.length === (manifest.secrets ?? []).length) return { files: [], notes: [] }
  const text = withValue(await folder.read(MANIFEST), { ...manifest, secrets: names }, MANIFEST)
  const isWritten = await folder.write(MANIFEST, text)
  return { files: isWritten ? [MANIFEST] : [], notes: [] }
}

export const secrets: Kind = { plan, pull }
