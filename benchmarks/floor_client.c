// The floor: what the same reads cost a C program that does nothing else with them.
//
//   floor_client PORT CONCURRENCY REQUESTS TOKENS
//
// A closed loop of CONCURRENCY streams against the truth server: one epoll, recvmsg() with the kernel's receive time, a
// search for event ends. Prints one line of JSON.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_FDS = 65536, READ_BYTES = 65536, BATCH = 256, STAMP_OPTION = 35 };
#define NS_PER_S 1000000000LL

static int64_t sent_at[MAX_FDS], first_at[MAX_FDS];
static char request[2048];
static int request_length;

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static double cpu_s(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void ask(int fd) {
  first_at[fd] = 0;
  sent_at[fd] = now();
  if (send(fd, request, request_length, MSG_NOSIGNAL) != request_length) {
    perror("send");
    exit(1);
  }
}

static int by_size(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: floor_client PORT CONCURRENCY REQUESTS TOKENS\n");
    return 2;
  }
  int port = atoi(argv[1]), concurrency = atoi(argv[2]), requests = atoi(argv[3]);
  struct rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  char body[1024];
  int length = snprintf(body, sizeof body, "{\"model\":\"truth\",\"max_tokens\":%s,\"stream\":true,\"messages\":[]}", argv[4]);
  request_length = snprintf(request, sizeof request,
                            "POST /v1/chat/completions HTTP/1.1\r\nHost: truth\r\nX-Request-Id: floor\r\nContent-Length: %d\r\n\r\n%s",
                            length, body);
  int poller = epoll_create1(0), asked = 0, done = 0, yes = 1;
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  for (; asked < concurrency && asked < requests; asked++) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || fd >= MAX_FDS || connect(fd, (void *)&address, sizeof address)) {
      perror("connect");
      return 1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(fd, SOL_SOCKET, STAMP_OPTION, &yes, sizeof yes);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
    ask(fd);
  }
  int64_t *ttft = malloc(requests * sizeof *ttft), begin = now();
  double cpu = cpu_s();
  long events = 0;
  static char data[READ_BYTES];
  struct epoll_event ready[BATCH];
  while (done < requests) {
    int count = epoll_wait(poller, ready, BATCH, 10000);
    if (count <= 0) {
      fprintf(stderr, "the server is silent\n");
      return 1;
    }
    for (int i = 0; i < count; i++) {
      int fd = ready[i].data.fd;
      char control[64];
      struct iovec vector = {data, sizeof data};
      struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
      ssize_t size = recvmsg(fd, &message, MSG_DONTWAIT);
      if (size <= 0) {
        fprintf(stderr, "a connection broke\n");
        return 1;
      }
      struct cmsghdr *stamp = CMSG_FIRSTHDR(&message);
      struct timespec t = {0};
      if (stamp) memcpy(&t, CMSG_DATA(stamp), sizeof t);
      for (char *at = data, *end = data + size; (at = memmem(at, end - at, "\n\n", 2)); at += 2) {
        events++;
        if (!first_at[fd]) first_at[fd] = t.tv_sec * NS_PER_S + t.tv_nsec;
      }
      if (size >= 7 && !memcmp(data + size - 7, "\r\n0\r\n\r\n", 7)) {
        ttft[done++] = first_at[fd] - sent_at[fd];
        if (asked < requests) ask(fd), asked++;
      }
    }
  }
  cpu = cpu_s() - cpu;
  double wall = (now() - begin) / 1e9;
  events -= 3L * requests;  // finish, usage and end marker are no output
  qsort(ttft, requests, sizeof *ttft, by_size);
  printf("{\"events_per_s\": %.0f, \"cpu_us_per_event\": %.2f, \"ttft_p50_ms\": %.3f, \"ttft_p99_ms\": %.3f}\n",
         events / wall, 1e6 * cpu / events, ttft[requests / 2] / 1e6, ttft[(long)(requests * 0.99)] / 1e6);
  return 0;
}
