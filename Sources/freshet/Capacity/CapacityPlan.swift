/// How much of everything a number of widgets takes.
struct CapacityPlan: Sendable {
    /// What people and apps do, and how things are set up.
    struct Demand: Hashable, Sendable {
        var widgets: Double
        /// Less than 1 where kinds are shared or people have two devices.
        var timelinesPerWidget = 0.8
        /// Events a day for each widget.
        var eventsPerWidget = 12.0
        /// Reloads a day of each timeline, for whatever reason; budgets hold it between 8 and 70.
        var reloadsPerTimeline = 20.0
        /// The busiest minute of the day, by its average.
        var peak = 3.0
        /// The share of reloads whose content has changed.
        var changed = 0.7
        var contentBytes = 650.0
        /// Seconds that a provider takes for a request, and the timelines in one.
        var providerLatency = 0.2
        var batch = 100.0
        /// Seconds within which a reload of everything is to be done.
        var everything = 3_600.0
    }

    /// The part of a processor that is planned for: beyond it queues grow fast.
    static let utilisation = 0.6
    /// What one PostgreSQL is given at most: processors, bytes of log a second, memory.
    static let databaseCores = 32.0
    static let databaseWal = 150_000_000.0
    static let databaseMemory = 512_000_000_000.0
    static let replicaCores = 2.0

    let demand: Demand
    let costs: CapacityCosts

    init(_ demand: Demand, costs: CapacityCosts = CapacityCosts()) {
        self.demand = demand
        self.costs = costs
    }

    var timelines: Double { demand.widgets * demand.timelinesPerWidget }
    /// A second, on average over a day.
    var averageReloads: Double { timelines * demand.reloadsPerTimeline / 86_400 }
    /// A second, in the busiest minute, with the reload of everything beside it.
    var peakReloads: Double { averageReloads * demand.peak + timelines / demand.everything }
    var peakEvents: Double { demand.widgets * demand.eventsPerWidget / 86_400 * demand.peak }

    /// Milliseconds of PostgreSQL for a reload.
    var databasePerReload: Double {
        costs.apply.database + costs.claim.database + costs.store.database * demand.changed + costs.complete.database
    }

    /// Milliseconds of workers for a reload.
    var workersPerReload: Double {
        costs.claim.service + costs.fetch.service + costs.complete.service
            + (costs.store.service + costs.publish.service) * demand.changed
    }

    var walPerReload: Double {
        costs.apply.walBytes + costs.claim.walBytes + costs.complete.walBytes
            + demand.changed * (costs.store.walBytes + max(0, demand.contentBytes - 650))
    }

    var databaseCores: Double { peakReloads * databasePerReload / 1_000 / Self.utilisation }
    var peakWal: Double { peakReloads * walPerReload }
    var averageWal: Double { averageReloads * walPerReload }
    var storedBytes: Double {
        demand.widgets * costs.bytesPerWidget
            + timelines * (costs.bytesPerTimeline + demand.contentBytes * costs.contentFactor)
    }
    /// Hot rows with their indexes: what must be in memory.
    var hotBytes: Double { timelines * costs.hotBytesPerTimeline }
    /// A quarter of it is shared buffers, and those hold the hot rows.
    var databaseMemory: Double { max(8_000_000_000, hotBytes * 4) }

    /// PostgreSQL servers, each of an equal part of the apps or users.
    var databases: Int {
        let parts = max(
            databaseCores / Self.databaseCores, peakWal / Self.databaseWal, databaseMemory / Self.databaseMemory)
        return max(1, Int(parts.rounded(.up)))
    }

    var ingestCores: Double {
        (peakEvents * costs.event.service + peakReloads * costs.apply.service) / 1_000 / Self.utilisation
    }
    var workerCores: Double { peakReloads * workersPerReload / 1_000 / Self.utilisation }

    /// Processes of two cores. Never one alone, so that one can be replaced.
    var ingestReplicas: Int { max(2, Int((ingestCores / Self.replicaCores).rounded(.up))) }
    var workerReplicas: Int { max(2, Int((workerCores / Self.replicaCores).rounded(.up))) }

    /// Of each input topic: four for each process, so that they can be shared out evenly and the number can double.
    var partitions: Int {
        var partitions = 12
        while partitions < ingestReplicas * 4 { partitions *= 2 }
        return partitions
    }

    /// Requests to providers a second, and how many are under way at a time.
    var providerRequests: Double { peakReloads / demand.batch }
    var providerConcurrency: Int {
        max(1, Int((providerRequests * demand.providerLatency / Self.utilisation).rounded(.up)))
    }

    /// The way of a batch through one database's share of it all.
    var network: QueueNetwork {
        let share = 1 / Double(databases)
        func cores(_ count: Double) -> Int { max(1, Int((count * share).rounded(.up))) }
        func visit(_ station: Int, _ milliseconds: Double) -> QueueNetwork.Visit {
            QueueNetwork.Visit(station: station, service: .fixed(milliseconds * demand.batch / 1_000))
        }
        let (ingest, database, workers, provider) = (0, 1, 2, 3)
        let eventsPerReload = peakReloads > 0 ? peakEvents / peakReloads : 0
        return QueueNetwork(
            stations: [
                .init(name: "ingest cores", servers: cores(Double(ingestReplicas) * Self.replicaCores)),
                .init(name: "PostgreSQL cores", servers: cores(databaseCores)),
                .init(name: "worker cores", servers: cores(Double(workerReplicas) * Self.replicaCores)),
                .init(name: "provider slots", servers: cores(Double(providerConcurrency))),
            ],
            route: [
                visit(ingest, costs.event.service * eventsPerReload + costs.apply.service),
                visit(database, costs.apply.database),
                visit(workers, costs.claim.service), visit(database, costs.claim.database),
                QueueNetwork.Visit(station: provider, service: .exponential(demand.providerLatency)),
                visit(workers, costs.fetch.service + costs.store.service * demand.changed),
                visit(database, costs.store.database * demand.changed),
                visit(workers, costs.publish.service * demand.changed + costs.complete.service),
                visit(database, costs.complete.database),
            ],
            arrivals: peakReloads / demand.batch * share)
    }
}
