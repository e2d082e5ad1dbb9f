// A SimGrid actor that reads 4 KiB from one disk again and again: the peer of a drive at queue depth 1.
#include <simgrid/s4u.hpp>
#include <cstdlib>
#include <ctime>
#include <iostream>

namespace sg4 = simgrid::s4u;

int main(int argc, char** argv)
{
  sg4::Engine engine(&argc, argv);
  const long requests = argc > 1 ? std::atol(argv[1]) : 100000;
  auto* zone = sg4::create_full_zone("zone");
  auto* host = zone->create_host("host", 1e9);
  auto* disk = host->create_disk("disk", 78e6, 78e6);
  host->seal();
  zone->seal();
  sg4::Actor::create("reader", host, [disk, requests] {
    for (long done = 0; done < requests; ++done)
      disk->read(4096);
  });
  const auto begin = std::clock();
  engine.run();
  std::cout << requests / (double(std::clock() - begin) / CLOCKS_PER_SEC) << std::endl;
}
