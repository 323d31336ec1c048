/** Checks that alerts, runbooks and the dashboard name metrics that exist, with their labels, and each other. `npm run test:prometheus` runs them. */

import { readdirSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { expect, test } from 'vitest'
import { exportedName, METRICS, type MetricName, specOf } from '../../src/infra/metrics/catalogue.ts'
import { ALERT_CASES } from '../conformance/prometheus/alert-cases.ts'
import {
  ALERTS_FILE,
  DASHBOARD_FILE,
  groupingsIn,
  readAlerts,
  readDashboard,
  selectorsIn,
} from '../support/clients/monitoring.ts'

const RUNBOOKS = 'docs/runbooks'
const HEADINGS = ['## Meaning', '## First look', '## Commands', '## Remedy']

const alerts = readAlerts()
const dashboard = readDashboard()
const pages = readdirSync(RUNBOOKS).filter((name) => name !== 'README.md')
const textOf = (page: string) => readFileSync(`${RUNBOOKS}/${page}`, 'utf8')
const queries = [
  ...alerts.map(({ alert, expr }) => ({ at: `${ALERTS_FILE} ${alert}`, expr })),
  ...dashboard.map(({ title, expr }) => ({ at: `${DASHBOARD_FILE} ${title}`, expr })),
]

/** The labels of each series as Prometheus stores it. Those of the target are added by the scrape. */
const TARGET = ['job', 'instance']
const labelsOf = new Map<string, readonly string[]>([
  ['up', TARGET],
  ...(Object.keys(METRICS) as MetricName[]).flatMap((name) => {
    const labels = [...Object.keys(specOf(name)?.labels ?? {}), ...TARGET]
    const stored = exportedName(name)
    return METRICS[name].kind === 'histogram'
      ? [
          [`${stored}_bucket`, [...labels, 'le']] as const,
          ...['_sum', '_count'].map((part) => [`${stored}${part}`, labels] as const),
        ]
      : [[stored, labels] as const]
  }),
])

test('queries of alerts and the dashboard: name metrics that are exported', () => {
  const strange = queries.flatMap(({ at, expr }) =>
    selectorsIn(expr).flatMap(({ metric }) => (labelsOf.has(metric) ? [] : [`${at}: ${metric}`])),
  )
  expect(queries.length).toBeGreaterThan(50)
  expect(strange).toEqual([])
})

test('queries of alerts and the dashboard: select and group by labels that their metrics have', () => {
  const strange = queries.flatMap(({ at, expr }) => {
    const selectors = selectorsIn(expr)
    const known = new Set(selectors.flatMap(({ metric }) => labelsOf.get(metric) ?? []))
    const selected = selectors.flatMap(({ metric, matchers }) =>
      matchers
        .filter(({ label }) => labelsOf.get(metric)?.includes(label) !== true)
        .map(({ label }) => label),
    )
    const grouped = groupingsIn(expr).filter((label) => !known.has(label))
    return [...selected, ...grouped].map((label) => `${at}: ${label}`)
  })
  expect(strange).toEqual([])
})

/** Labels whose values their description lists, and not a document of the reference. */
const isDescribedInWords = (label: string) =>
  !['operation', 'area', 'code', 'part', ...TARGET].includes(label)

test('queries of alerts and the dashboard: select values that the catalogue lists', () => {
  const strange = queries.flatMap(({ at, expr }) =>
    selectorsIn(expr).flatMap(({ metric, matchers }) => {
      const name = (Object.keys(METRICS) as MetricName[]).find((one) => metric.startsWith(exportedName(one)))
      const described = specOf(name ?? '')?.labels ?? {}
      return matchers
        .filter(({ label, isPattern }) => !isPattern && isDescribedInWords(label))
        .filter(({ label, value }) => described[label]?.includes(value) !== true)
        .map(({ label, value }) => `${at}: ${label}="${value}"`)
    }),
  )
  expect(strange).toEqual([])
})

test('alerts: each has a runbook of its own, and each runbook an alert', () => {
  expect(alerts.map(({ annotations }) => annotations.runbook_url).sort()).toEqual(
    pages.map((page) => `${RUNBOOKS}/${page}`).sort(),
  )
  const titles = alerts.map(({ alert, annotations }) => [
    alert,
    textOf(basename(annotations.runbook_url)).split('\n', 1)[0]?.split(':', 1)[0],
  ])
  expect(titles).toEqual(alerts.map(({ alert }) => [alert, `# ${alert}`]))
})

test('alerts: say how urgent they are, and what is wrong in a sentence', () => {
  expect(alerts.filter(({ labels }) => !['page', 'ticket'].includes(labels['severity'] ?? ''))).toEqual([])
  expect(alerts.filter(({ annotations: { summary } }) => !/^\S.*\.$/.test(summary))).toEqual([])
})

test('alerts: each has a case in which it fires and one in which it does not', () => {
  expect(Object.keys(ALERT_CASES).sort()).toEqual(alerts.map(({ alert }) => alert).sort())
})

test('alerts: the index of runbooks lists each', () => {
  const index = textOf('README.md')
  expect(alerts.filter(({ alert }) => !index.includes(`| [${alert}](`)).map(({ alert }) => alert)).toEqual([])
})

test.each(pages)('runbook %s: has the four parts in order', (page) => {
  expect(textOf(page).match(/^## .*$/gm)).toEqual(HEADINGS)
})

test('runbooks: look for metrics that are exported', () => {
  const names = pages.flatMap((page) =>
    [...textOf(page).matchAll(/grep '\^(\w+)'/g)].map(([, name = '']) => `${page}: ${name}`),
  )
  expect(names.length).toBeGreaterThan(20)
  const exported = [...labelsOf.keys()]
  const strange = names.filter((name) => !exported.some((one) => one.startsWith(name.split(': ')[1] ?? name)))
  expect(strange).toEqual([])
})

test('dashboard: each panel has a title of its own', () => {
  const titles = [...new Set(dashboard.map(({ title }) => title))]
  const { panels } = JSON.parse(readFileSync(DASHBOARD_FILE, 'utf8')) as {
    panels: { type: string; title: string }[]
  }
  expect(panels.filter(({ type }) => type !== 'row').map(({ title }) => title)).toEqual(titles)
})
