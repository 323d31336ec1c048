/** The chart's values: both sets and the example of docs/kubernetes.md fit the schema, and no secret is among them. What Helm makes of them: test/conformance/chart. */

import { readFile } from 'node:fs/promises'
import { Ajv } from 'ajv'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { NO_VALUES } from '../../src/cli/stack/chart-reference.ts'
import { SETTINGS } from '../../src/infra/config.ts'
import { merge, valuesOf } from '../conformance/chart/renderings.ts'

const CHART = 'deploy/helm/tenon'
const PAGE = await readFile('docs/kubernetes.md', 'utf8')
const schema = JSON.parse(await readFile(`${CHART}/values.schema.json`, 'utf8'))
const validate = new Ajv({ strict: false, allErrors: true }).compile(schema)

/** The blocks of the page in YAML. */
const examples = [...PAGE.matchAll(/```yaml\n(.*?)\n```/gs)].map(([, text = '']) => parse(text) as object)

function faultsOf(values: object): string[] {
  validate(values)
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`)
}

test.each(['external', 'evaluation'] as const)('values-%s.yaml: fits the schema', async (set) => {
  expect(faultsOf(await valuesOf(set))).toEqual([])
})

test('values.yaml: alone: does not fit, since what has no default is missing', async () => {
  const values = parse(await readFile(`${CHART}/values.yaml`, 'utf8'))
  expect(faultsOf(values)).toContain(`/settings must have required property 'TENON_PUBLIC_URL'`)
})

test('values.yaml: functions of tenants run in the sandbox unless a value says no', async () => {
  const { worker } = parse(await readFile(`${CHART}/values.yaml`, 'utf8'))
  expect(worker.functionSandbox.enabled).toBe(true)
})

test('example of the page: fits the schema, also for nodes with AppArmor', async () => {
  const defaults = parse(await readFile(`${CHART}/values.yaml`, 'utf8'))
  const [first = {}, ...others] = examples
  expect(others.length).toBeGreaterThan(0)
  expect(faultsOf(merge(defaults, first))).toEqual([])
  for (const other of others) expect(faultsOf(merge(merge(defaults, first), other))).toEqual([])
})

test('example of the page: its Secrets have the keys that the schema asks for', async () => {
  const groups = schema.properties.secrets.properties as Record<
    string,
    { properties: { existingSecret: { description: string } } }
  >
  const secrets = (
    examples[0] as { secrets: Record<string, { existingSecret: string; optionalKeys?: string[] }> }
  ).secrets
  for (const [group, { existingSecret: name, optionalKeys = [] }] of Object.entries(secrets)) {
    const [, command = ''] = PAGE.split(`create secret generic ${name} \\\n`)
    const [own = ''] = command.split(/\n(?! )/)
    const given = [...own.matchAll(/--from-literal=([A-Z0-9_]+)=/g)].map(([, key]) => key)
    const { description } = groups[group]?.properties.existingSecret ?? { description: '' }
    const [needed = ''] = description.split(/\. /)
    const keys = group === 'api' ? [] : [...needed.matchAll(/`([A-Z0-9_]+)`/g)].map(([, key]) => key)
    expect([group, given.sort()]).toEqual([group, [...keys, ...optionalKeys].sort()])
  }
})

test('settings: what is no value exists, and every other setting is one', () => {
  const left: readonly string[] = Object.values(NO_VALUES).flat()
  expect(left.filter((name) => !Object.hasOwn(SETTINGS, name))).toEqual([])
  const values = Object.keys(schema.properties.settings.properties)
  expect([...values, ...left].sort()).toEqual(Object.keys(SETTINGS).sort())
})

test('settings: no secret is a value', () => {
  const secret =
    /SECRET|PASSWORD|_TOKEN$|API_KEY$|MASTER_KEY|ACCESS_KEY|^(DATABASE|REDIS|MONGODB|SMTP)_.*URL$/
  const isSecret = (name: string) => secret.test(name) || 'secret' in (SETTINGS[name] ?? {})
  const values = Object.keys(schema.properties.settings.properties)
  expect(values.filter((name) => isSecret(name) && !name.endsWith('_FILE'))).toEqual([])
})
