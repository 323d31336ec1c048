/** Reads the alert rules and the dashboard of the repository, and the metrics and labels that a query names. */

import { readFileSync } from 'node:fs'
import { parse } from 'yaml'

export const ALERTS_FILE = 'deploy/prometheus/alerts.yml'
export const DASHBOARD_FILE = 'deploy/grafana/tenon.json'

export interface AlertRule {
  readonly alert: string
  readonly expr: string
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: { readonly summary: string; readonly runbook_url: string }
}

export function readAlerts(): readonly AlertRule[] {
  const { groups } = parse(readFileSync(ALERTS_FILE, 'utf8')) as { groups: { rules: AlertRule[] }[] }
  return groups.flatMap(({ rules }) => rules)
}

interface Panel {
  readonly title: string
  readonly targets?: readonly { readonly expr: string }[]
}

/** The queries of the dashboard, each with the title of its panel. */
export function readDashboard(): readonly { readonly title: string; readonly expr: string }[] {
  const { panels } = JSON.parse(readFileSync(DASHBOARD_FILE, 'utf8')) as { panels: readonly Panel[] }
  return panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr })))
}

/** A metric in a query, with the labels that the query selects by. */
export interface Selector {
  readonly metric: string
  readonly matchers: readonly {
    readonly label: string
    readonly value: string
    readonly isPattern: boolean
  }[]
}

const SELECTOR = /\b((?:tenon|temporal|process)_\w+|up)\b(?:\{([^}]*)\})?/g
const MATCHER = /(\w+)(=~|!~|=|!=)"([^"]*)"/g
const GROUPING = /\bby \(([^)]*)\)/g

export const selectorsIn = (expr: string): readonly Selector[] =>
  [...expr.matchAll(SELECTOR)].map(([, metric = '', matchers = '']) => ({
    metric,
    matchers: [...matchers.matchAll(MATCHER)].map(([, label = '', operator = '', value = '']) => ({
      label,
      value,
      isPattern: operator.endsWith('~'),
    })),
  }))

/** The labels by which a query groups. */
export const groupingsIn = (expr: string): readonly string[] =>
  [...expr.matchAll(GROUPING)].flatMap(([, list = '']) => list.split(',').map((label) => label.trim()))
