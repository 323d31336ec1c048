/** Records the metrics of the catalogue with OpenTelemetry, and writes them for a scrape in the text format of Prometheus. */

import type { Attributes, Counter, Gauge, Histogram, Observable } from '@opentelemetry/api'
import { PrometheusSerializer } from '@opentelemetry/exporter-prometheus'
import {
  AggregationTemporality,
  InstrumentType,
  MeterProvider,
  MetricReader,
} from '@opentelemetry/sdk-metrics'
import { INFRA_LIMITS } from '../limits.ts'
import { type LabelsOf, METRICS, type MetricName, type NameOf, type Source, specOf } from './catalogue.ts'

type ObservedName = NameOf<'observed counter' | 'observed gauge'>

/** Gives the value of a metric to the scrape. */
export type SetValue = <Name extends ObservedName>(name: Name, value: number, labels: LabelsOf<Name>) => void

export class Metrics {
  readonly #reader: ScrapeReader | undefined
  readonly #counters = new Map<MetricName, Counter>()
  readonly #histograms = new Map<MetricName, Histogram>()
  readonly #gauges = new Map<MetricName, Gauge>()
  readonly #observed = new Map<MetricName, Observable>()
  readonly #meter
  #scrape: Promise<string> | undefined

  /** @param isExported false if nothing scrapes this process: then nothing is kept */
  constructor(isExported: boolean) {
    this.#reader = isExported ? new ScrapeReader() : undefined
    const provider = new MeterProvider({ readers: this.#reader === undefined ? [] : [this.#reader] })
    this.#meter = provider.getMeter('tenon')
    for (const name of Object.keys(METRICS) as MetricName[]) this.#create(name)
  }

  #create(name: MetricName): void {
    const { kind, help: description, buckets } = specOf(name) ?? {}
    const options = { description: description ?? '' }
    if (kind === 'counter') this.#counters.set(name, this.#meter.createCounter(name, options))
    if (kind === 'gauge') this.#gauges.set(name, this.#meter.createGauge(name, options))
    if (kind === 'histogram') {
      const advice = { explicitBucketBoundaries: [...(buckets ?? [])] }
      this.#histograms.set(name, this.#meter.createHistogram(name, { ...options, advice }))
    }
    if (kind === 'observed counter')
      this.#observed.set(name, this.#meter.createObservableCounter(name, options))
    if (kind === 'observed gauge') this.#observed.set(name, this.#meter.createObservableGauge(name, options))
  }

  /** False if nothing scrapes this process. */
  get isExported(): boolean {
    return this.#reader !== undefined
  }

  /** Adds to a counter. @param labels values of closed lists */
  add<Name extends NameOf<'counter'>>(name: Name, value: number, labels: LabelsOf<Name>): void {
    this.#counters.get(name)?.add(value, labels as Attributes)
  }

  /** Adds a value, in the unit of its name, to a histogram. */
  record<Name extends NameOf<'histogram'>>(name: Name, value: number, labels: LabelsOf<Name>): void {
    this.#histograms.get(name)?.record(value, labels as Attributes)
  }

  /** For updates of a library: records the value of a metric by its kind. A name that the catalogue lacks is ignored. */
  pass(name: string, value: number, labels: Readonly<Record<string, string>>): void {
    const key = name as MetricName
    this.#counters.get(key)?.add(value, labels)
    this.#histograms.get(key)?.record(value, labels)
    this.#gauges.get(key)?.record(value, labels)
  }

  /**
   * Reads values at each scrape. If it fails, or takes longer than `observationMs`, the scrape is without them, and
   * `tenon_observation_up` of the source is 0.
   */
  observe(source: Source, read: (set: SetValue) => void | Promise<void>): void {
    this.#meter.addBatchObservableCallback(
      async (result) => {
        const set = (name: ObservedName, value: number, labels: Attributes) => {
          const observed = this.#observed.get(name)
          if (observed !== undefined) result.observe(observed, value, labels)
        }
        const isUp = await endsInTime(async () => read(set as SetValue))
        set('tenon_observation_up', isUp ? 1 : 0, { source })
      },
      [...this.#observed.values()],
    )
  }

  /** All metrics in the text format of Prometheus 0.0.4; empty if nothing is kept. Scrapes at the same time share one result. */
  scrape(): Promise<string> {
    this.#scrape ??= (this.#reader?.scrape() ?? Promise.resolve('')).finally(() => {
      this.#scrape = undefined
    })
    return this.#scrape
  }
}

/** @returns false if the work fails or is late */
async function endsInTime(work: () => Promise<void>): Promise<boolean> {
  const { promise: late, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(() => resolve(false), INFRA_LIMITS.observationMs)
  const done = work().then(
    () => true,
    () => false,
  )
  return Promise.race([done, late]).finally(() => clearTimeout(timer))
}

/** A cumulative gauge would keep the last value that was read for ever, also while its server is away; counters must be cumulative. */
const temporalityOf = (type: InstrumentType): AggregationTemporality =>
  type === InstrumentType.OBSERVABLE_GAUGE ? AggregationTemporality.DELTA : AggregationTemporality.CUMULATIVE

/** Reads all metrics when it is asked. The exporter of OpenTelemetry does the same behind an HTTP server of its own. */
class ScrapeReader extends MetricReader {
  readonly #serializer = new PrometheusSerializer('', false, undefined, true, true)

  constructor() {
    super({ aggregationTemporalitySelector: temporalityOf })
  }

  async scrape(): Promise<string> {
    const { resourceMetrics } = await this.collect()
    return `${this.#serializer.serialize(resourceMetrics)}\n`
  }

  protected async onForceFlush(): Promise<void> {}

  protected async onShutdown(): Promise<void> {}
}
