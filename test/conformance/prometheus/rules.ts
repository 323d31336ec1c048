/** Tests the alert rules with `promtool test rules`: each alert fires where it should, and not beside it. */

import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { stringify } from 'yaml'
import { ALERTS_FILE, type AlertRule, readAlerts } from '../../support/clients/monitoring.ts'
import { ALERT_CASES, type AlertCase } from './alert-cases.ts'
import type { Programs } from './prometheus.ts'

const execute = promisify(execFile)

/** When the series have lasted for longer than any rule waits. */
const EVALUATED_AT = '15m'

/** @returns what failed */
export async function testRules({ promtool }: Programs): Promise<string[]> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-rules-'))
  try {
    const file = join(dir, 'test.yml')
    const alerts = readAlerts()
    await writeFile(file, stringify(testsOf(alerts)))
    await execute(promtool, ['check', 'config', 'deploy/prometheus/prometheus.yml'])
    await execute(promtool, ['check', 'rules', ALERTS_FILE])
    await execute(promtool, ['test', 'rules', file])
    process.stdout.write(`${alerts.length} alerts fire where they should, and not beside it.\n`)
    return []
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    return [`${stdout}${stderr}` || String(error)]
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

function testsOf(alerts: readonly AlertRule[]): object {
  const tests = alerts.flatMap((alert) => {
    const one = ALERT_CASES[alert.alert]
    if (one === undefined) throw new Error(`${alert.alert} has no case`)
    return [testOf(alert, one.fires, one), testOf(alert, one.silent, undefined)]
  })
  return { rule_files: [resolve(ALERTS_FILE)], evaluation_interval: '15s', tests }
}

/** @param expected undefined if the alert must not fire */
function testOf(
  { alert, labels, annotations }: AlertRule,
  series: AlertCase['fires'],
  expected: AlertCase | undefined,
): object {
  const fired = expected && {
    exp_labels: { ...labels, ...expected.labels },
    exp_annotations: { ...annotations, summary: expected.summary },
  }
  return {
    interval: '15s',
    input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
    alert_rule_test: [
      { eval_time: EVALUATED_AT, alertname: alert, exp_alerts: fired === undefined ? [] : [fired] },
    ],
  }
}
